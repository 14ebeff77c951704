// Fault rehearsal for file operations: makes the n-th one fail, so that tests can prove that every
// failure is reported and leaves nothing half done. Process-wide; tests only.
#pragma once

namespace gyre::os {

// After `n` more successful file operations (open, stat, map, read, write, sync, rename, make
// directory) the next one fails once with "Input/output error". Negative = never.
void fail_operation_after(long n);

// Counts one operation; true when this one must fail.
bool operation_must_fail();

}  // namespace gyre::os
