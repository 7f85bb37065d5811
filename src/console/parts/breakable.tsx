/** An address or a name with dots that breaks behind a slash or a dot where it must break. */
export function Breakable({ text }: { text: string }) {
  return <>{text.split(/(?<=[./])(?=[^./])/).flatMap((part) => [part, <wbr />])}</>;
}
