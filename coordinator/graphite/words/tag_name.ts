/** The name that a tag has whose series came by Carbon (docs/LINES.md). */
export function carbonTagName(tag: string): string {
  const bytes = Buffer.from(tag).toString('latin1');
  return bytes.replace(/[^a-zA-Z0-9_]/g, '_').replace(/^\d/, '_');
}
