import { layered } from './layered';
import type { LayoutInput } from './layout';

self.onmessage = ({ data }: MessageEvent<LayoutInput>) => {
  self.postMessage(layered(data));
};
