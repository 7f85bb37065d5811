/** The result of one of the doctor's checks. */
export interface Finding {
  check: string;
  ok: boolean;
  /** What was seen. */
  detail: string;
  /** What to do about it; null where nothing needs doing. Beside `ok` it makes the finding a warning. */
  nextStep: string | null;
}

/** Nothing needs doing. */
export function fine(check: string, detail: string): Finding {
  return { check, ok: true, detail, nextStep: null };
}

/** Nothing is broken, but it may become so. */
export function warning(check: string, detail: string, nextStep: string): Finding {
  return { check, ok: true, detail, nextStep };
}

/** Something needs doing. */
export function fault(check: string, detail: string, nextStep: string): Finding {
  return { check, ok: false, detail, nextStep };
}
