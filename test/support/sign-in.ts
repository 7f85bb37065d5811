/** Sends the plain sign-in form, as a browser does from the service's own page. */
export const signIn = (url: string, token: string, headers: Record<string, string> = {}) =>
  fetch(`${url}/sign-in`, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: url, ...headers },
    body: new URLSearchParams({ token }),
  });
