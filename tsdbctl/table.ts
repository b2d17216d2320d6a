/** Rows for people: columns with two spaces between them, their names above. */
export function tableText(
  names: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const texts = [names.map((name) => name.toUpperCase()), ...rows.map((row) => row.map(String))];
  const widths = names.map((_, column) =>
    Math.max(...texts.map((row) => (row[column] ?? '').length)),
  );
  return texts
    .map((row) =>
      row
        .map((text, column) => text.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
