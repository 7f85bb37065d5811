const PATHS = {
  overview: 'M3 3h6v7H3zM11 3h6v4h-6zM3 13h6v4H3zM11 10h6v7h-6z',
  jobs: 'M4 5h12M4 10h12M4 15h8',
  athletes: 'M10 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 17c.6-3.4 3-5 6-5s5.400 1.600 6 5',
  activities: 'M2 15l5-8 3.500 5 2-3L18 15z',
  deliveries: 'M3 5h14v10H3zM3 5l7 6 7-6',
  subscriptions:
    'M8 12l-1.500 1.500a3 3 0 0 1-4.200-4.200L5 6.600a3 3 0 0 1 4.200 0M12 8l1.500-1.500a3 3 0 0 1 4.200 4.200L15 13.400a3 3 0 0 1-4.200 0M8 12l4-4',
  application: 'M3 4h14v12H3zM3 8h14M6 6h.2M8 12h5M11 10l2 2-2 2',
  processes: 'M3 4h14v5H3zM3 11h14v5H3zM6 6.500h.2M6 13.500h.2',
  audit: 'M5 3h8l3 3v11H5zM8 9h5M8 12h5',
  menu: 'M3 5h14M3 10h14M3 15h14',
  pause: 'M7 4v12M13 4v12',
  play: 'M6 4l10 6-10 6z',
  good: 'M4 10.500l4 4 8-9',
  waiting: 'M10 5v5l3 2M10 18a8 8 0 1 0 0-16 8 8 0 0 0 0 16z',
  bad: 'M10 3l8 14H2zM10 8v4M10 14.500v.2',
} as const;
export type IconName = keyof typeof PATHS;

/** A drawing beside words that say the same. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
