import { useEffect, useRef } from 'preact/hooks';
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

/** Fields for ids that a list is narrowed to; Enter applies them. */
export function IdFilter({ fields }: { fields: readonly { name: string; label: string }[] }) {
  const form = useRef<HTMLFormElement>(null);
  const { query } = place.value;
  const text = query.toString();
  // Back and forward change the address under the fields.
  useEffect(() => {
    for (const { name } of fields) {
      const input = form.current?.elements.namedItem(name);
      if (input instanceof HTMLInputElement) input.value = query.get(name) ?? '';
    }
  }, [text]);
  const apply = (event: Event) => {
    event.preventDefault();
    const data = new FormData(form.current ?? undefined);
    go(hereWith(Object.fromEntries(fields.map(({ name }) => [name, String(data.get(name) ?? '').trim()]))));
  };
  const isSet = fields.some(({ name }) => query.has(name));
  return (
    <form class="filter" ref={form} onSubmit={apply}>
      {fields.map(({ name, label }) => (
        <label key={name}>
          <span>{label}</span>
          <input
            name={name}
            inputMode="numeric"
            pattern="\s*[0-9]{1,19}\s*"
            title="A whole number"
            autoComplete="off"
          />
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
