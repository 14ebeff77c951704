#include "kernels/cpu/tuning.h"

#include "os/cpu.h"

namespace gyre::kernels {

const Tuning& tuning() {
  static const Tuning chosen =
      os::cpu().vendor == "AuthenticAMD" ? Tuning{0, true} : Tuning{6144, false};
  return chosen;
}

}  // namespace gyre::kernels
