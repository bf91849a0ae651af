// A page in one file: its blocks stand in elements that browsers do not run.
import { start } from "./app.js";
import { unpacked } from "./columns.js";
import { sourceOf, lazy } from "./source.js";

const blocks = Object.fromEntries([...document.querySelectorAll("script[id]")].map((block) => [block.id, block]));

async function read(name) {
  const binary = atob(blocks[name].textContent), packed = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const content = lazy(async () => unpacked(await read("texts")).columns.text);
const texts = (rows) => content().then((text) => rows.map((row) => text.at(row)));
await start(sourceOf({ read, texts }));
