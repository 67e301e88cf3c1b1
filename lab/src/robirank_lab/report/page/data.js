// The data of the run, which the page carries in itself.

const data = JSON.parse(document.getElementById("report-data").textContent);

/** The sections of the page by name; each draws itself into its element. */
const sections = {};

const packed = (() => {
  const text = atob(data.values ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return new Uint16Array(bytes.buffer);
})();

/** A metric of all queries by a method, as whole numbers; data.missing where there is none. */
function values(method, metric) {
  const n = data.queries.id.length;
  const start = (method * data.metrics.length + metric) * n;
  return packed.subarray(start, start + n);
}
