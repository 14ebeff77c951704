// gyre tokenize, gyre detokenize.

#include <cstdio>

#include "apps/commands.h"
#include "apps/common.h"

namespace gyre::apps {
namespace {

struct Vocabulary {
  std::unique_ptr<loaders::WeightSource> source;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

Result<Vocabulary> open_vocabulary(const std::string& model) {
  if (model.empty()) return fail(ErrorCode::usage, "--model", "nothing", "a model file");
  Vocabulary out;
  GYRE_ASSIGN(out.source, loaders::open_weights(model));
  GYRE_ASSIGN(out.tokenizer, text::Tokenizer::make(*out.source));
  return out;
}

}  // namespace

Result<int> run_tokenize(const Arguments& arguments) {
  std::string model, text, file;
  bool json = false, no_special = false, no_bos = false;
  Flags flags("tokenize");
  flags.text("-m,--model", &model, "model file (.gguf)")
      .text("-t,--text", &text, "the text")
      .text("-f,--file", &file, "read the text from a file")
      .toggle("--no-special", &no_special, "special tokens' names are text")
      .toggle("--no-bos", &no_bos, "add no BOS or EOS")
      .toggle("--json", &json, "one JSON object on stdout");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  if (flags.was_given("--text") == flags.was_given("--file"))
    return fail(ErrorCode::usage, "text", flags.was_given("--text") ? "both" : "nothing",
                "--text or --file");
  GYRE_ASSIGN(const Vocabulary vocabulary, open_vocabulary(model));
  if (!file.empty()) {
    GYRE_ASSIGN(text, read_text_file(file));
  }
  const text::Tokenizer& tokenizer = *vocabulary.tokenizer;
  const std::vector<int32_t> ids =
      tokenizer.encode(text, {.add_special = !no_bos, .parse_special = !no_special});
  if (json) {
    Json pieces = Json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer.piece(id, true));
    print_json({{"ids", ids}, {"pieces", pieces}});
    return 0;
  }
  for (const int32_t id : ids) std::printf("%d\t%s\n", id, std::string(tokenizer.raw(id)).c_str());
  return 0;
}

Result<int> run_detokenize(const Arguments& arguments) {
  std::string model, list;
  bool json = false, special = false;
  Flags flags("detokenize");
  flags.text("-m,--model", &model, "model file (.gguf)")
      .text("--ids", &list, "token ids, separated by commas")
      .toggle("--special", &special, "show special tokens' names")
      .toggle("--json", &json, "one JSON object on stdout");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  GYRE_ASSIGN(const Vocabulary vocabulary, open_vocabulary(model));
  GYRE_ASSIGN(const std::vector<int32_t> ids,
              parse_ids(list, static_cast<uint32_t>(vocabulary.tokenizer->size())));
  const std::string text = vocabulary.tokenizer->decode(ids, special);
  if (json) {
    print_json({{"ids", ids}, {"text", text}});
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::printf("\n");
  }
  return 0;
}

}  // namespace gyre::apps
