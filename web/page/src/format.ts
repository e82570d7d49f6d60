// Formats numbers for people.

export { formatBytes as bytes } from "pteron";

/** Separates facts on a line, and stays at the end of the line at a line break. */
export const DOT = "\u00a0· ";

export function seconds(value: number): string {
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.5) return `${significant(value)} s`;
  const whole = Math.round(value);
  if (whole < 3570) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.round((whole % 3600) / 60)} min`;
}

/** The remaining time of a download, rounded. */
export function timeLeft(value: number): string {
  return value < 1 ? "less than a second left" : `${seconds(Math.ceil(value))} left`;
}

export function microseconds(value: number): string {
  return value < 1000 ? `${significant(value)} µs` : `${significant(value / 1000)} ms`;
}

export function percent(share: number): string {
  const value = share * 100;
  return value > 0 && value < 0.1 ? "< 0.1 %" : `${significant(value, 2)} %`;
}

export function rate(perSecond: number): string {
  return `${significant(perSecond)} tokens/s`;
}

export function count(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString("en-GB")} ${value === 1 ? one : many}`;
}

/** Three significant digits, and whole numbers from a hundred on. */
function significant(value: number, digits = 3): string {
  const whole = Math.max(1, Math.floor(Math.log10(Math.max(Math.abs(value), 1))) + 1);
  const decimals = value === 0 ? 0 : Math.min(2, Math.max(0, digits - whole));
  const text = value.toFixed(decimals);
  return decimals > 0 ? text.replace(/\.?0+$/, "") : text;
}

/** Cuts the middle out of a text that is too long: the ends identify it. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  const front = Math.ceil((most - 1) / 2);
  return `${text.slice(0, front)}…${text.slice(text.length - (most - 1 - front))}`;
}
