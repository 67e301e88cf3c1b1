// Documents with features, read from a text in the browser: LETOR lines, a table, or JSON.

const LABELS = ["label", "relevance", "y"];
const QUERIES = ["qid", "query"];
const IDS = ["id", "doc_id", "docid"];

/** The queries of a text: [{ id, documents: [{ id, label, features: {name: number} }] }]. */
export function readDocuments(text, names) {
  const trimmed = text.trim();
  if (!trimmed) throw new Error("There is nothing to read.");
  const rows = /^[[{]/.test(trimmed) ? fromJson(trimmed) : /^\S+\s+(qid:\S+\s+)?\d+:/m.test(trimmed) ? fromLetor(trimmed, names) : fromTable(trimmed);
  const queries = new Map();
  for (const row of rows) {
    const id = String(row.query ?? "");
    if (!queries.has(id)) queries.set(id, { id, documents: [] });
    const { documents } = queries.get(id);
    documents.push({ id: row.id === undefined || row.id === "" ? `document ${documents.length + 1}` : String(row.id), label: row.label, features: known(row.features, names) });
  }
  return [...queries.values()];
}

/** The features that the model knows; those of another name are an error if none is known. */
function known(features, names) {
  const found = Object.fromEntries(names.filter((name) => name in features).map((name) => [name, features[name]]));
  if (!Object.keys(found).length && names.length) {
    throw new Error(`The model knows the features ${names.slice(0, 5).join(", ")} …; here there are ${Object.keys(features).slice(0, 5).join(", ") || "none"}.`);
  }
  return found;
}

function fromLetor(text, names) {
  return text.split(/\r?\n/).filter((line) => line.trim() && !line.startsWith("#")).map((line, number) => {
    const [left, comment = ""] = line.split("#");
    const [label, ...pairs] = left.trim().split(/\s+/);
    const row = { label: Number(label), features: {}, id: /docid\s*=\s*(\S+)/.exec(comment)?.[1] };
    for (const name of names) row.features[name] = 0;
    for (const pair of pairs) {
      const [name, value] = pair.split(":");
      if (name === "qid") row.query = value;
      else {
        const index = Number(name);
        if (!Number.isInteger(index) || value === undefined) throw new Error(`Line ${number + 1}: “${pair}” should be a feature and its value, such as 3:0.5.`);
        if (index >= 1 && index <= names.length) row.features[names[index - 1]] = Number(value);
      }
    }
    return row;
  });
}

function fromTable(text) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  const mark = ["\t", ";", ","].find((one) => lines[0].includes(one)) ?? ",";
  const header = lines[0].split(mark).map((name) => name.trim());
  if (lines.length < 2) throw new Error("A table needs a line with names, and below it a line for each document.");
  return lines.slice(1).map((line, number) => {
    const cells = line.split(mark);
    if (cells.length !== header.length) throw new Error(`Line ${number + 2} has ${cells.length} values; the first line names ${header.length}.`);
    return rowOf(Object.fromEntries(header.map((name, place) => [name, cells[place].trim()])));
  });
}

function fromJson(text) {
  const told = JSON.parse(text);
  const documents = Array.isArray(told) ? told : told.documents ?? [told];
  return documents.map((one) => (one.features && !Array.isArray(one.features)
    ? { id: one.id, label: one.label, query: one.qid, features: numbers(one.features) } : rowOf(one)));
}

function rowOf(values) {
  const take = (names) => values[names.find((name) => name in values)];
  const label = take(LABELS);
  const features = Object.entries(values).filter(([name]) => ![...LABELS, ...QUERIES, ...IDS].includes(name));
  return { id: take(IDS), label: label === undefined ? undefined : Number(label), query: take(QUERIES), features: numbers(Object.fromEntries(features)) };
}

/** The entries that are numbers; a missing one is left out. */
function numbers(features) {
  const pairs = Object.entries(features).map(([name, value]) => [name, value === "" || value === null ? NaN : Number(value)]);
  return Object.fromEntries(pairs.filter(([, value]) => Number.isFinite(value)));
}

/** The text of a file, unpacked where its name ends in .gz. */
export async function textOf(file) {
  if (!file.name.endsWith(".gz")) return file.text();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

/** Documents that nobody has, to try the view with. */
export function madeUp(names, number = 12) {
  let state = 7;
  const random = () => { state = (state * 16807) % 2147483647; return state / 2147483647; };
  const row = () => Object.fromEntries(names.map((name) => [name, Number(random().toFixed(3))]));
  return [{ id: "made up", documents: Array.from({ length: number }, (_, k) => ({ id: `document ${k + 1}`, features: row() })) }];
}

/** NDCG@10 of labels in the order of a list; null where no document is relevant. */
export function ndcg(labels, k = 10) {
  const dcg = (some) => some.slice(0, k).reduce((sum, label, place) => sum + (2 ** label - 1) / Math.log2(place + 2), 0);
  const best = dcg([...labels].sort((a, b) => b - a));
  return best > 0 ? dcg(labels) / best : null;
}
