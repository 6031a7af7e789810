/** Draws pictures of arrays, and marks over them, onto a canvas. */

export interface Pixels {
  size: number[];
  png: string;
}

export type Shades = 'grey' | 'colour';

/** From dark blue over green to yellow: grows lighter all along, so that it can be read without its hues. */
const STOPS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
] as const;

/** The colour of a grey from 0 to 255. */
export function colourOf(grey: number): [number, number, number] {
  const at = (grey / 255) * (STOPS.length - 1);
  const low = STOPS[Math.min(Math.floor(at), STOPS.length - 2)] ?? STOPS[0];
  const high = STOPS[Math.min(Math.floor(at) + 1, STOPS.length - 1)] ?? STOPS[0];
  const share = at - Math.min(Math.floor(at), STOPS.length - 2);
  const mix = (from: number, to: number) => Math.round(from + (to - from) * share);
  return [mix(low[0], high[0]), mix(low[1], high[1]), mix(low[2], high[2])];
}

async function decoded(png: string): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  return image;
}

function layer(
  image: HTMLImageElement,
  paint: (context: CanvasRenderingContext2D) => void,
): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d');
  if (context !== null) {
    context.drawImage(image, 0, 0);
    paint(context);
  }
  return canvas;
}

function colour(context: CanvasRenderingContext2D): void {
  const { width, height } = context.canvas;
  const pixels = context.getImageData(0, 0, width, height);
  for (let at = 0; at < pixels.data.length; at += 4) {
    pixels.data.set(colourOf(pixels.data[at] ?? 0), at);
  }
  context.putImageData(pixels, 0, 0);
}

/** Draw a picture, if there is one, and marks over it; `wanted` says whether it still is once they are decoded. */
export async function paint(
  canvas: HTMLCanvasElement,
  base: Pixels | undefined,
  marks: Pixels | null,
  shades: Shades,
  wanted: () => boolean,
): Promise<void> {
  const context = canvas.getContext('2d');
  if (context === null) return;
  const [picture, marked] = await Promise.all([
    base && decoded(base.png),
    marks === null ? undefined : decoded(marks.png),
  ]);
  if (!wanted()) return;
  const size = base?.size ?? marks?.size ?? [1, 1];
  [canvas.height, canvas.width] = [Math.max(size[0] ?? 1, 1), Math.max(size[1] ?? 1, 1)];
  context.imageSmoothingEnabled = false;
  const { width, height } = canvas;
  if (picture) {
    const shown = layer(picture, (one) => shades === 'colour' && colour(one));
    context.drawImage(shown, 0, 0, width, height);
  }
  if (marked) {
    const style = getComputedStyle(canvas);
    const tinted = layer(marked, (one) => {
      one.globalCompositeOperation = 'source-in';
      one.fillStyle = style.getPropertyValue('--cells').trim() || '#e0245e';
      one.fillRect(0, 0, marked.width, marked.height);
    });
    context.drawImage(tinted, 0, 0, width, height);
  }
  canvas.dataset.painted =
    `${base === undefined ? '' : 'picture'} ${marks === null ? '' : 'marks'}`.trim();
}
