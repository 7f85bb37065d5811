import type { IncomingMessage } from 'node:http';

const mostBytes = 1_048_576;

/**
 * Reads the fields of a form or of a flat JSON object. A form field given more than once becomes a comma-separated
 * list. Unreadable bodies have no fields; rejects when the connection breaks or the body is over 1 MiB.
 */
export async function readFields(request: IncomingMessage): Promise<Map<string, string>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new Error('The body is over 1 MiB');
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString('utf8');
  return request.headers['content-type']?.includes('json') === true ? jsonFields(text) : formFields(text);
}

function formFields(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) {
    const earlier = fields.get(name);
    fields.set(name, earlier === undefined ? value : `${earlier},${value}`);
  }
  return fields;
}

function jsonFields(text: string): Map<string, string> {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed !== 'object' || parsed === null) return new Map();
    return new Map(Object.entries(parsed).map(([name, value]) => [name, String(value)]));
  } catch (error) {
    if (error instanceof SyntaxError) return new Map();
    throw error;
  }
}
