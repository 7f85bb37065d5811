import { useLayoutEffect, useRef } from 'preact/hooks';
import { go, Link, place } from '../router.tsx';
import { hereWith } from './pages.tsx';

/** A choice of one value of a parameter, as links: each is an address that can be shared. */
export function Choice({
  label,
  name,
  options,
}: {
  label: string;
  name: string;
  options: readonly { value: string | undefined; text: string }[];
}) {
  const chosen = place.value.query.get(name) ?? undefined;
  return (
    <nav class="choice" aria-label={label}>
      {options.map(({ value, text }) => (
        <Link key={text} to={hereWith({ [name]: value })} current={chosen === value ? 'true' : undefined}>
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** What a field takes: an id (by default), any text, or a time, which the address has in UTC and the field in the browser's zone. */
interface Field {
  name: string;
  label: string;
  kind?: 'id' | 'text' | 'time';
}

/** Fields that a list is narrowed by; Enter applies them. */
export function IdFilter({ fields }: { fields: readonly Field[] }) {
  const form = useRef<HTMLFormElement>(null);
  const { query } = place.value;
  const text = query.toString();
  // Back and forward change the address under the fields; set before the first paint, it overwrites nothing typed.
  useLayoutEffect(() => {
    for (const { name, kind } of fields) {
      const input = form.current?.elements.namedItem(name);
      const value = query.get(name) ?? '';
      if (input instanceof HTMLInputElement) input.value = kind === 'time' ? toLocalTime(value) : value;
    }
  }, [text]);
  const apply = (event: Event) => {
    event.preventDefault();
    const data = new FormData(form.current ?? undefined);
    const typed = ({ name, kind }: Field) => {
      const value = String(data.get(name) ?? '').trim();
      return [name, kind === 'time' && value !== '' ? new Date(value).toISOString() : value];
    };
    go(hereWith(Object.fromEntries(fields.map(typed))));
  };
  const isSet = fields.some(({ name }) => query.has(name));
  return (
    <form class="filter" ref={form} onSubmit={apply}>
      {fields.map(({ name, label, kind = 'id' }) => (
        <label key={name}>
          <span>{label}</span>
          <input name={name} autoComplete="off" {...INPUTS[kind]} />
        </label>
      ))}
      <button type="submit">Filter</button>
      {isSet && (
        <Link class="button quiet" to={hereWith(Object.fromEntries(fields.map(({ name }) => [name, undefined])))}>
          Clear
        </Link>
      )}
    </form>
  );
}

const INPUTS = {
  id: { inputMode: 'numeric', pattern: '\\s*[0-9]{1,19}\\s*', title: 'A whole number' },
  text: { maxLength: 500 },
  time: { type: 'datetime-local' },
} as const;

/** A time of the address as its field takes it: "2026-01-31T13:00" in the browser's zone. */
function toLocalTime(at: string): string {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return '';
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
