import { DELIVERED_TYPES } from '../../domain/change.ts';
import type { Endpoint, EndpointSettings } from '../api/bodies.ts';

/** Which changes an endpoint receives, and where. @param onSubmit resolves to whether the form may be emptied */
export function EndpointForm({
  endpoint,
  action,
  onSubmit,
}: {
  /** The endpoint to change; undefined to create one. */
  endpoint?: Endpoint;
  action: string;
  onSubmit: (settings: EndpointSettings) => Promise<boolean>;
}) {
  const submit = async (event: Event) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    if (await onSubmit(settingsOf(new FormData(form)))) form.reset();
  };
  return (
    <form class="settings" onSubmit={submit}>
      <label>
        <span>Address</span>
        <input
          name="url"
          type="url"
          required
          maxLength={2000}
          placeholder="https://app.example.com/hook"
          autoComplete="off"
          defaultValue={endpoint?.url ?? ''}
        />
      </label>
      <label>
        <span>Description (optional)</span>
        <input name="description" maxLength={500} autoComplete="off" defaultValue={endpoint?.description ?? ''} />
      </label>
      <fieldset>
        <legend>Types (none ticked: every type)</legend>
        {DELIVERED_TYPES.map((type) => (
          <label key={type} class="check">
            <input
              type="checkbox"
              name="types"
              value={type}
              defaultChecked={endpoint?.types?.includes(type) ?? false}
            />
            <code>{type}</code>
          </label>
        ))}
      </fieldset>
      <label>
        <span>Athletes (ids; empty: every athlete)</span>
        <input
          name="athletes"
          inputMode="numeric"
          pattern="[0-9,\s]*"
          title="Ids of athletes with spaces between them"
          autoComplete="off"
          defaultValue={endpoint?.athleteIds?.join(' ') ?? ''}
        />
      </label>
      <div class="actions">
        <button type="submit">{action}</button>
      </div>
    </form>
  );
}

function settingsOf(form: FormData): EndpointSettings {
  const wanted = form.getAll('types');
  const types = DELIVERED_TYPES.filter((type) => wanted.includes(type));
  const athleteIds = String(form.get('athletes')).match(/[0-9]+/g);
  return {
    url: String(form.get('url')).trim(),
    description: String(form.get('description')).trim(),
    types: types.length === 0 ? null : types,
    athleteIds,
  };
}
