#include "kernels/isa.h"

#include <string>

#include "os/cpu.h"

namespace gyre::kernels {
namespace {

constexpr Isa kAll[] = {Isa::scalar,  Isa::neon,       Isa::avx2,
                        Isa::avxvnni, Isa::avx512vnni, Isa::avx512};

bool available(Isa isa) {
  [[maybe_unused]] const os::CpuInfo& cpu = os::cpu();
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  const bool avx2 = cpu.avx2 && cpu.fma && cpu.f16c;
  if (isa == Isa::avx2) return avx2;
  if (isa == Isa::avxvnni) return avx2 && cpu.avx_vnni;
  const bool vnni = avx2 && cpu.avx512 && cpu.avx512_vnni;
  if (isa == Isa::avx512vnni) return vnni;
  if (isa == Isa::avx512) return vnni && cpu.avx512_bf16;
#elif defined(__aarch64__)
  if (isa == Isa::neon) return cpu.neon_dotprod;
#endif
  return false;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avxvnni:
      return "avxvnni";
    case Isa::avx512vnni:
      return "avx512vnni";
    case Isa::avx512:
      return "avx512";
    case Isa::neon:
      return "neon";
  }
  return "?";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> out;
  for (Isa isa : kAll) {
    if (available(isa)) out.push_back(isa);
  }
  return out;
}

Result<Isa> choose_isa(std::string_view forced) {
  const std::vector<Isa> all = available_isas();
  if (forced.empty()) return all.back();
  std::string names;
  for (Isa isa : all) {
    if (isa_name(isa) == forced) return isa;
    names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  return fail(ErrorCode::usage, "isa", forced, "one of " + names);
}

}  // namespace gyre::kernels
