/** An address or a dotted name that may wrap after a slash or a dot. */
export function Breakable({ text }: { text: string }) {
  return <>{text.split(/(?<=[./])(?=[^./])/).flatMap((part) => [part, <wbr />])}</>;
}
