/**
 * A browser that runs under a POSIX locale names a language that Intl refuses ("en-US@posix"), and the
 * charts' library passes it to Intl as soon as it is loaded: nothing would be shown at all. Imported first.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, 'language', { value: document.documentElement.lang, configurable: true });
}
