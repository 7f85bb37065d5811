/** Jest's global teardown: leaves no server, folder or database behind. */
// biome-ignore lint/style/noDefaultExport: Jest takes the default export
export default async function tearDown(): Promise<void> {
  await globalThis.serverForTests?.stop();
}
