/** Draws records of a soak as one SVG of small panels that share their time axis. */

export interface GraphLine {
  readonly name: string;
  /** One a record; null where there is none. */
  readonly values: readonly (number | null)[];
}

export interface GraphPanel {
  readonly title: string;
  readonly lines: readonly GraphLine[];
}

const width = 960;
const panelHeight = 130;
const left = 70;
const right = 190;
const top = 40;
const gap = 34;
const colours = ['#1f5fa8', '#c2571a', '#2d8a4e', '#8a3fa0', '#7a7a1f'];

/**
 * @param minutes of the records since the begin of the load
 * @returns the text of an SVG file
 */
export function drawPanels(
  title: string,
  minutes: readonly number[],
  panels: readonly GraphPanel[],
): string {
  const height = top + panels.length * (panelHeight + gap) + 30;
  const end = Math.max(...minutes, 0.001);
  const x = (minute: number): number => left + (minute / end) * (width - left - right);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="white"/>`,
    `<text x="${left}" y="20" font-size="14">${escaped(title)}</text>`,
  ];
  panels.forEach((panel, index) => {
    const base = top + index * (panelHeight + gap) + panelHeight;
    parts.push(...panelParts(panel, minutes, x, base));
    if (index < panels.length - 1) return;
    const step = niceStep(end, 8);
    for (let minute = 0; minute <= end; minute += step) {
      const text = Number(minute.toFixed(3));
      parts.push(
        `<text x="${x(minute).toFixed(1)}" y="${base + 16}" text-anchor="middle">${text} min</text>`,
      );
    }
  });
  parts.push('</svg>');
  return `${parts.join('\n')}\n`;
}

function panelParts(
  { title, lines }: GraphPanel,
  minutes: readonly number[],
  x: (minute: number) => number,
  base: number,
): string[] {
  const most = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const step = niceStep(most === 0 ? 1 : most, 4);
  const ceiling = Math.max(step, Math.ceil(most / step) * step);
  const y = (value: number): number => base - (value / ceiling) * panelHeight;
  const parts = [`<text x="${left}" y="${base - panelHeight - 6}">${escaped(title)}</text>`];
  for (let tick = 0; tick <= ceiling + step / 2; tick += step) {
    const at = y(tick).toFixed(1);
    parts.push(`<path d="M${left} ${at}H${width - right}" stroke="#ddd" fill="none"/>`);
    const text = Number(tick.toPrecision(6));
    parts.push(
      `<text x="${left - 6}" y="${(y(tick) + 4).toFixed(1)}" text-anchor="end">${text}</text>`,
    );
  }
  lines.forEach(({ name, values }, index) => {
    const colour = colours[index % colours.length]!;
    let path = '';
    let isDown = false;
    values.forEach((value, i) => {
      if (value === null) {
        isDown = false;
        return;
      }
      path += `${isDown ? 'L' : 'M'}${x(minutes[i]!).toFixed(1)} ${y(value).toFixed(1)}`;
      isDown = true;
    });
    if (path !== '') parts.push(`<path d="${path}" stroke="${colour}" fill="none"/>`);
    const textAt = base - panelHeight + 12 + 15 * index;
    parts.push(
      `<text x="${width - right + 8}" y="${textAt}" fill="${colour}">${escaped(name)}</text>`,
    );
  });
  return parts;
}

/** 1, 2 or 5 times a power of ten, so that at most so many fit. */
function niceStep(length: number, countMax: number): number {
  const least = length / countMax;
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
