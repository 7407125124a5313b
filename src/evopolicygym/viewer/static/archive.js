// Files to be saved: the bytes of a file of a document, and several as one tar archive.

const BLOCK = 512;
const NAME = 100;
const encoder = new TextEncoder();

export function bytesOf({ text, bytes }) {
  return bytes ? Uint8Array.from(atob(bytes), (char) => char.charCodeAt(0)) : encoder.encode(text ?? "");
}

export function download(name, bytes) {
  const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// An archive (ustar) of [path, bytes]; of a path that is too long for it, the end is kept.
export function archiveOf(files) {
  const parts = files.flatMap(([path, bytes]) => [header(path, bytes.length), bytes, new Uint8Array((BLOCK - (bytes.length % BLOCK)) % BLOCK)]);
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 2 * BLOCK));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

function header(path, size) {
  const block = new Uint8Array(BLOCK);
  const put = (at, text) => block.set(encoder.encode(text), at);
  block.set(encoder.encode(path).slice(-NAME), 0);
  put(100, "0000644\0");
  put(108, "0000000\0");
  put(116, "0000000\0");
  put(124, `${size.toString(8).padStart(11, "0")}\0`);
  put(136, "00000000000\0");
  put(148, "        0");
  put(257, "ustar\x0000");
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${sum.toString(8).padStart(6, "0")}\0 0`);
  return block;
}
