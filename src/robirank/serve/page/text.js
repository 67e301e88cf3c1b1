// Numbers and names as people read them.

const whole = new Intl.NumberFormat("en");

/** 41203 becomes 41,203. */
export function count(number) {
  return whole.format(number);
}

/** "1 item", "2 items". */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A score or an effect: three digits that count, and a true minus. */
export function amount(number, { sign = false } = {}) {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const size = Math.abs(number);
  if (size >= 1e6 || (size > 0 && size < 1e-4)) return minus(number.toExponential(1), sign, number);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  const text = size > 0 && size < 0.1 ? number.toPrecision(2) : number.toFixed(digits);
  return minus(Number(text) === 0 ? "0" : text, sign, number);
}

function minus(text, sign, number) {
  const plain = text.replaceAll("-", "−");
  return sign && number > 0 && plain !== "0" ? `+${plain}` : plain;
}

/** 0.1234 becomes 12%. */
export function percent(share) {
  const value = 100 * share;
  return `${value > 0 && value < 10 ? value.toFixed(1) : value.toFixed(0)}%`;
}

/** A time of the server, in the reader's own words. */
export function when(iso) {
  const date = new Date(iso);
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A message of the server as a sentence. */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
}

/** What an item is called: its name, or else its id. */
export function called(one) {
  return one.name ?? String(one.item ?? one.id);
}

/** A user as a word: long ids are shortened. */
export function userName(id) {
  const text = String(id);
  return `user ${text.length > 14 ? `${text.slice(0, 10)}…` : text}`;
}

/** A value of a table as text. */
export function value(thing) {
  if (thing === null || thing === undefined) return "–";
  if (Array.isArray(thing)) return thing.map(value).join(", ");
  if (typeof thing === "number") return Number.isInteger(thing) ? String(thing) : String(+thing.toPrecision(6));
  return String(thing);
}
