// SentencePiece: metadata and text from the input. Format: see tokenizer_input.h.
#include "tokenizer_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gyre::text::fuzz_tokenizer("llama", data, size);
  return 0;
}
