// Merges the profiles of several steps into one table of kernels.

import type { Profile } from "pteron";
import type { KernelTime, ProfileReport } from "./protocol.js";

/** The mean of `profiles` per kernel, longest first. */
export function group(profiles: readonly Profile[]): ProfileReport {
  const steps = profiles.length;
  const kernels = new Map<string, KernelTime>();
  for (const { operator, kernel, microseconds } of profiles.flatMap((profile) => profile.dispatches)) {
    const entry = kernels.get(kernel) ?? { kernel, operators: [], microseconds: 0, count: 0 };
    entry.microseconds += microseconds / steps;
    entry.count += 1 / steps;
    if (!entry.operators.includes(operator)) entry.operators.push(operator);
    kernels.set(kernel, entry);
  }
  const sorted = [...kernels.values()].sort((a, b) => b.microseconds - a.microseconds);
  for (const entry of sorted) entry.count = Math.round(entry.count);
  return {
    steps,
    timing: profiles[0]?.timing ?? "pass-each",
    totalMicroseconds: sorted.reduce((sum, entry) => sum + entry.microseconds, 0),
    kernels: sorted,
  };
}
