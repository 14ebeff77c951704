// What a program may show on its terminal.
#pragma once

namespace gyre::os {

bool stdout_is_terminal();
bool stderr_is_terminal();

}  // namespace gyre::os
