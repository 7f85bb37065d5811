/**
 * A browser that runs under a POSIX locale names a language that Intl refuses ("en-US@posix"), and the
 * charts' library asks Intl for it as soon as it is loaded: nothing at all would be shown. Imported first.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: document.documentElement.lang, configurable: true });
}
