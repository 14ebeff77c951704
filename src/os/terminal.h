// What a program may show on its terminal.
#pragma once

namespace gyre::os {

bool stdout_is_terminal();
bool stderr_is_terminal();

// Writing to a pipe whose reader has left becomes an error of the write, not a signal.
void ignore_broken_pipes();

}  // namespace gyre::os
