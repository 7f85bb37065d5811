/** Latitude and longitude in degrees. */
export type LatLng = readonly [number, number];

/** Where simulated athletes live and train. */
export interface Place {
  city: string;
  country: string;
  centre: LatLng;
  /** The provider's form: "(GMT+01:00) Europe/Berlin". */
  timezone: string;
  utcOffsetSeconds: number;
}

export const places: readonly Place[] = [
  place('Berlin', 'Germany', [52.5145, 13.3501], '(GMT+01:00) Europe/Berlin', 1),
  place('Amsterdam', 'Netherlands', [52.358, 4.868], '(GMT+01:00) Europe/Amsterdam', 1),
  place('London', 'United Kingdom', [51.5073, -0.1657], '(GMT+00:00) Europe/London', 0),
  place('Girona', 'Spain', [41.9794, 2.8214], '(GMT+01:00) Europe/Madrid', 1),
  place('Boulder', 'United States', [40.015, -105.2705], '(GMT-07:00) America/Denver', -7),
  place('Nairobi', 'Kenya', [-1.2921, 36.8219], '(GMT+03:00) Africa/Nairobi', 3),
  place('Kyoto', 'Japan', [35.0116, 135.7681], '(GMT+09:00) Asia/Tokyo', 9),
  place('Cape Town', 'South Africa', [-33.9249, 18.4241], '(GMT+02:00) Africa/Johannesburg', 2),
  place('Melbourne', 'Australia', [-37.8136, 144.9631], '(GMT+10:00) Australia/Melbourne', 10),
];

function place(city: string, country: string, centre: LatLng, timezone: string, utcOffsetHours: number): Place {
  return { city, country, centre, timezone, utcOffsetSeconds: utcOffsetHours * 3_600 };
}
