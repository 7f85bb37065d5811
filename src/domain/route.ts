/** A point of a route in degrees, WGS 84: [latitude, longitude]. */
export type LatLng = readonly [latitude: number, longitude: number];
