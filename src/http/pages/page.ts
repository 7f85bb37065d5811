/** Escapes text for HTML content and double-quoted attributes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Path of the style sheet of the plain pages; a strict content security policy allows no inline one. */
export const STYLE_PATH = '/style.css';

/**
 * A plain page of the service.
 * @param body HTML
 */
export function renderPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} · Activity Sync</title>
<link rel="stylesheet" href="${STYLE_PATH}">
</head>
<body>
<header><a class="brand" href="/">Activity Sync</a></header>
<main>
<h1>${escapeHtml(title)}</h1>
${body}
</main>
</body>
</html>
`;
}

export const STYLE = `
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1c2430; --faint: #667085; --line: #e3e6eb; --accent: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --card: #1b212a; --text: #e6eaf0; --faint: #98a2b3; --line: #2b333f; --accent: #ff8a4c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
header { display: flex; gap: 1.5rem; align-items: center; padding: .8rem clamp(1rem, 4vw, 3rem); background: var(--card); border-bottom: 1px solid var(--line); }
.brand { font-weight: 700; color: var(--accent); text-decoration: none; }
main { max-width: 75rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 1rem; }
a { color: var(--accent); }
a:focus-visible, button:focus-visible, input:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.faint { color: var(--faint); }
.activities { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 16rem), 1fr)); gap: 1rem; list-style: none; margin: 0; padding: 0; }
.activities li { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; overflow: hidden; }
.activities img, .activities .no-picture { display: block; width: 100%; height: auto; aspect-ratio: 1; background: var(--line); }
.activities .no-picture { display: grid; place-items: center; color: var(--faint); font-size: .9rem; }
.pages { display: flex; gap: 1.5rem; margin-top: 1.5rem; }
.activities .text { padding: .7rem .9rem .9rem; }
.activities .name { font-weight: 600; overflow-wrap: anywhere; }
.activities .facts { color: var(--faint); font-size: .88rem; }
form.sign-in { display: grid; gap: .8rem; max-width: 24rem; background: var(--card); border: 1px solid var(--line); border-radius: .8rem; padding: 1.2rem; }
input { font: inherit; padding: .5rem .7rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--page); color: var(--text); width: 100%; }
button { font: inherit; font-weight: 600; padding: .5rem 1rem; border: 0; border-radius: .5rem; background: var(--accent); color: #fff; cursor: pointer; }
@media (prefers-color-scheme: dark) { button { color: #12161c; } }
.error { color: #b42318; } @media (prefers-color-scheme: dark) { .error { color: #ff9a8f; } }
`;
