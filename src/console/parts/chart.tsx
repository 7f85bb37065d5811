import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { formatClocks, formatTick } from '../format.ts';

/** One line or row of bars. */
export interface Series {
  name: string;
  /** A custom property of the style sheet: "--green". */
  colour: string;
  values: (number | null)[];
  bars?: boolean;
}

const HEIGHT = 180;
const VALUES_WIDTH = 58;
const GAP = 18; // what uPlot leaves between a value and the plot
const FONT = '12px system-ui, sans-serif';
const FEW = 20; // a single value makes no line
const WATCHES_COLOURS = '(prefers-color-scheme: dark)';

/**
 * A chart over time.
 * @param summary the same in words, for screen readers
 * @param steps how far apart the ticks of its values may be
 * @param format writes a value with its unit
 */
export function Chart({
  times,
  series,
  summary,
  steps,
  format,
}: {
  /** Epoch seconds. */
  times: number[];
  series: readonly Series[];
  summary: string;
  steps: readonly number[];
  format: (value: number) => string;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const [pointed, setPointed] = useState<number | null>(null);
  const shape = series.map(({ name, colour }) => name + colour).join();

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(element, series, steps, format, setPointed), dataOf(times, series), element);
    };
    draw();
    const sizes = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    const colours = matchMedia(WATCHES_COLOURS);
    colours.addEventListener('change', draw);
    return () => {
      sizes.disconnect();
      colours.removeEventListener('change', draw);
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [shape]);

  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series]);

  // The newest step is not complete yet.
  const at = pointed ?? times.length - 2;
  const time = times[at];
  const span = time === undefined ? '' : spanOf(time, times);
  return (
    <figure class="chart">
      <div class="plot" ref={place} role="img" aria-label={summary}>
        {pointed !== null && time !== undefined && (
          <Tip plot={plot.current} time={time}>
            <b>{span}</b>
            {series.map(({ name, values }) => (
              <span key={name}>
                {name}: {shownValue(values[at], format)}
              </span>
            ))}
          </Tip>
        )}
      </div>
      <figcaption>
        {series.map(({ name, colour, values }) => (
          <span key={name}>
            <i class={`swatch ${colour.slice(2)}`} /> {name} <b>{shownValue(values[at], format)}</b>
          </span>
        ))}
        {time !== undefined && <span class="faint">{pointed === null ? `last full step, ${span}` : span}</span>}
      </figcaption>
    </figure>
  );
}

/** The values under the pointer, shown beside it. */
function Tip({ plot, time, children }: { plot: uPlot | undefined; time: number; children: ComponentChildren }) {
  if (!plot) return null;
  const width = plot.over.clientWidth;
  const x = plot.valToPos(time, 'x');
  const isRight = x > width / 2;
  // Beside the pointer, on the side that has more room.
  const edge = isRight ? { right: `${width - x + GAP}px` } : { left: `${plot.over.offsetLeft + x + GAP}px` };
  return (
    <div class="tip" aria-hidden="true" style={edge}>
      {children}
    </div>
  );
}

/** The step that begins at a time: "14:03 – 14:04 GMT+1". */
function spanOf(time: number, times: readonly number[]): string {
  const stepS = (times[1] ?? 0) - (times[0] ?? 0);
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  return formatClocks(iso(time), iso(time + Math.max(0, stepS)));
}

function shownValue(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value);
}

function dataOf(times: number[], series: readonly Series[]): uPlot.AlignedData {
  return [times, ...series.map(({ values }) => values)];
}

/** How wide an axis must be for its longest value: "3 min 20 s" with its 3 cut off is another time. */
function widthOf(context: CanvasRenderingContext2D, values: readonly string[]): number {
  context.save();
  context.font = FONT;
  const longest = Math.max(...values.map((value) => context.measureText(value).width), 0);
  context.restore();
  return Math.max(VALUES_WIDTH, Math.ceil(longest) + GAP);
}

function optionsOf(
  element: HTMLElement,
  series: readonly Series[],
  steps: readonly number[],
  format: (value: number) => string,
  point: (index: number | null) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const colourOf = (name: string) => style.getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colourOf('--faint'),
    font: FONT,
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { show: false },
  };
  const bars = uPlot.paths.bars?.({ size: [0.8, 24] });
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, sync: { key: 'history' }, drag: { x: false, y: false }, points: { show: true } },
    hooks: { setCursor: [({ cursor }) => point(cursor.idx ?? null)] },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(1e-3, max || 1) * 1.1] } },
    axes: [
      {
        ...axis,
        size: 30,
        values: (_plot, splits) => splits.map(formatTick),
      },
      {
        ...axis,
        incrs: [...steps],
        size: ({ ctx }, values) => widthOf(ctx, values ?? []),
        values: (_plot, splits) => splits.map((value) => (value === null ? '' : format(value))),
      },
    ],
    series: [
      {},
      ...series.map((one): uPlot.Series => {
        const stroke = colourOf(one.colour);
        return {
          label: one.name,
          stroke,
          width: one.bars ? 0 : 2,
          points: { show: !one.bars && one.values.filter((value) => value !== null).length <= FEW, size: 5 },
          spanGaps: true,
          ...(one.bars ? { fill: stroke } : {}),
          ...(one.bars && bars ? { paths: bars } : {}),
        };
      }),
    ],
  };
}
