// What was counted of an answer, and what it says beside another. Pure.

export const NOTHING = Object.freeze({
  tokens: 0, steps: 0, drafted: 0, accepted: 0, first: 0, last: 0, seconds: null, decode: null,
});

/** One more step, as the stream tells it, at a time in milliseconds. */
export function counted(tally, step, now) {
  return {
    ...tally,
    tokens: tally.tokens + step.committed,
    steps: tally.steps + (step.drafted > 0 ? 1 : 0),
    drafted: tally.drafted + step.drafted,
    accepted: tally.accepted + step.accepted,
    first: tally.first || now,
    last: now,
  };
}

/** The server's own times, which leave out the way to this page. */
export function timed(tally, { time_to_first_token_seconds: first, decode_seconds: decode }) {
  return { ...tally, seconds: first + decode, decode };
}

/** Tokens that a step committed on average, the model's own one included. */
export function perStep(tally) {
  return tally.steps ? 1 + tally.accepted / tally.steps : null;
}

/** Tokens a second behind the first one; null while there is nothing to divide by. */
export function speed(tally) {
  const seconds = tally.decode ?? (tally.last - tally.first) / 1000;
  return tally.tokens > 1 && seconds > 0 ? (tally.tokens - 1) / seconds : null;
}

/** Label and value of each number that is shown. `plain`: a speed seen before, or null. */
export function rows(tally, plain) {
  const shown = [];
  if (tally.drafted) {
    shown.push(["Draft accepted", `${Math.round((100 * tally.accepted) / tally.drafted)} %`]);
    shown.push(["Tokens a step", perStep(tally).toFixed(2)]);
  }
  shown.push(["Tokens a second", figure(speed(tally))]);
  if (tally.drafted && plain !== null) shown.push(["Plain, last measured", figure(plain)]);
  shown.push(["Tokens", String(tally.tokens)]);
  if (tally.seconds !== null) shown.push(["Seconds", tally.seconds.toFixed(2)]);
  return shown;
}

/** The two in words. An answer is `{text, tally}`. */
export function verdict(dflash, plain, temperature) {
  if (dflash.text === plain.text) {
    const [ours, theirs] = [dflash.tally.seconds, plain.tally.seconds];
    const times = `DFlash ${ours.toFixed(2)} s, plain decoding ${theirs.toFixed(2)} s`;
    return `The same text. ${times}: ${ratio(theirs / ours)}`;
  }
  const [ours, theirs] = [speed(dflash.tally), speed(plain.tally)];
  const speeds = `DFlash ${figure(ours)} tokens a second, plain decoding ${figure(theirs)}`;
  const judged = ours && theirs ? `${speeds}: ${ratio(ours / theirs)}` : `${speeds}.`;
  return `${apart(dflash.text, plain.text, temperature)} ${judged}`;
}

function ratio(times) {
  const said = `${times.toFixed(2)} times as fast`;
  if (said.startsWith("1.00")) return "equally fast.";
  return times > 1 ? `${said}.` : `DFlash was slower here, ${said}.`;
}

function apart(one, other, temperature) {
  if (temperature > 0) return `Another text, as answers at temperature ${temperature} are.`;
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  const why = "Two tokens were as likely, or it is a fault: dflash verify tells which.";
  return `ANOTHER TEXT after ${at} characters. ${why}`;
}

function figure(value) {
  return value === null ? "-" : value.toFixed(1);
}
