#include "loaders/gguf_format.h"

namespace gyre::loaders::gguf {

std::string_view name(ValueType type) {
  static constexpr std::string_view kNames[kValueTypes] = {
      "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
      "bool",  "string", "array",  "uint64", "int64",  "float64"};
  const auto number = static_cast<uint32_t>(type);
  return number < kValueTypes ? kNames[number] : "unknown";
}

std::string_view foreign_type_name(uint32_t gguf_type) {
  switch (gguf_type) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 9:
      return "Q8_1";
    case 15:
      return "Q8_K";
    case 16:
      return "IQ2_XXS";
    case 17:
      return "IQ2_XS";
    case 18:
      return "IQ3_XXS";
    case 19:
      return "IQ1_S";
    case 21:
      return "IQ3_S";
    case 22:
      return "IQ2_S";
    case 24:
      return "I8";
    case 25:
      return "I16";
    case 26:
      return "I32";
    case 27:
      return "I64";
    case 28:
      return "F64";
    case 29:
      return "IQ1_M";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 34:
      return "TQ1_0";
    case 35:
      return "TQ2_0";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    case 40:
      return "NVFP4";
    case 41:
      return "Q1_0";
    default:
      return {};
  }
}

}  // namespace gyre::loaders::gguf
