#include "text/pretokenizers.h"

namespace gyre::text {
namespace {

#define CONTRACTION "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
#define SPACES "\\s+(?!\\S)|\\s+"
#define LINES "\\s*[\\r\\n]+"

constexpr std::string_view kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" SPACES;
constexpr std::string_view kLlama3 = CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kQwen2 = CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kQwen35 = CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES
    "|" SPACES;
constexpr std::string_view kUfakzeka =
    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kSeedCoder = CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES "|" SPACES;
constexpr std::string_view kBailing =
    "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|" SPACES;
constexpr std::string_view kMiniCpm5 = CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kKimi =
    "\\p{Han}+|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}&&[^\\p{Han}]]+(?:" CONTRACTION
    ")?|\\p{N}{1,3}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kDeepSeek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES "|" SPACES;
constexpr std::string_view kDeepSeekHan = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr std::string_view kOldDeepSeekHan = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
// Letters with case, as DeepSeek lists them.
constexpr std::string_view kDeepSeekLetters =
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295"
    "-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-"
    "\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5"
    "\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-"
    "\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-"
    "\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-"
    "\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-"
    "\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E"
    "\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-"
    "\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17"
    "\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-"
    "\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-"
    "\U0001E943]+";
constexpr std::string_view kDeepSeekPunctuation =
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+";
constexpr std::string_view kPoro = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";

// A capital is any letter but a-z, a small letter any but A-Z: letters without case are both.
#define CAPITAL "[\\p{L}&&[^a-z]]"
#define SMALL "[\\p{L}&&[^A-Z]]"
#define MARKED_CAPITAL "[\\p{L}\\p{M}&&[^a-z]]"
#define MARKED_SMALL "[\\p{L}\\p{M}&&[^A-Z]]"
#define SLASHED " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES "|" SPACES
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
constexpr std::string_view kTekken =
    LEAD CAPITAL "*" SMALL "+|" LEAD CAPITAL "+" SMALL "*|\\p{N}|" SLASHED;
constexpr std::string_view kGpt4o =
    LEAD CAPITAL "*" SMALL "+(?:" CONTRACTION ")?|" LEAD CAPITAL "+" SMALL "*(?:" CONTRACTION
                 ")?|\\p{N}{1,3}|" SLASHED;
constexpr std::string_view kGraniteMulti =
    LEAD MARKED_CAPITAL "*" MARKED_SMALL "+(?:" CONTRACTION ")?|" LEAD MARKED_CAPITAL
                        "+" MARKED_SMALL "*(?:" CONTRACTION ")?|\\p{N}{1,3}|" SLASHED;

struct Family {
  std::vector<std::string_view> names;
  PreTokenizer pre;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {{"default"},
       {{"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false, false}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {{kLlama3}, true, true, false}},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {{kLlama3}, false, false, false}},
      {{"glm4", "glm5"}, {{kLlama3}, true, false, false}},
      {{"gpt-2", "phi-2", "gigachat", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais",
        "exaone4", "trillion", "granite-docling"},
       {{kGpt2}, false, false, false}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
        "mellum2"},
       {{"\\p{N}", kGpt2}, false, false, false}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "megrez",
        "solar-open", "grok-2"},
       {{kQwen2}, false, false, false}},
      {{"qwen35"}, {{kQwen35}, false, false, false}},
      {{"ufakzeka"}, {{kUfakzeka}, false, false, false}},
      {{"seed-coder"}, {{kSeedCoder}, false, false, false}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailing}, false, false, false}},
      {{"minicpm5"}, {{"\\p{N}{1,3}", kMiniCpm5}, true, false, false}},
      {{"laguna"}, {{"[^\\n]+|[\\n]+", kQwen2}, false, false, false}},
      {{"falcon"}, {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, "[0-9][0-9][0-9]"}, false, false, false}},
      {{"deepseek-llm"},
       {{"[\r\n]", kDeepSeekLetters, kDeepSeekPunctuation, "\\s+$", kOldDeepSeekHan, "\\p{N}+"},
        false,
        false,
        false}},
      {{"deepseek-coder"},
       {{"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kOldDeepSeekHan, "\\p{N}"}, false, false, false}},
      {{"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
       {{"\\p{N}{1,3}", kDeepSeekHan, kDeepSeek3}, false, false, false}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{kPoro}, false, false, false}},
      {{"viking"}, {{kPoro, "\\p{N}"}, false, false, false}},
      {{"tekken"}, {{kTekken}, true, true, false}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {{kGpt4o}, false, false, false}},
      {{"granite-embed-multi-97m"}, {{kGraniteMulti}, true, false, false}},
      {{"kimi-k2"}, {{kKimi}, false, false, false}},
      {{"gemma4"}, {{"[^\\n]+|[\\n]+"}, false, true, true}},
  };
  return all;
}

}  // namespace

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> out;
  for (const Family& family : families()) {
    out.insert(out.end(), family.names.begin(), family.names.end());
  }
  return out;
}

Result<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  for (const Family& family : families()) {
    for (std::string_view known : family.names) {
      if (known == name) return family.pre;
    }
  }
  std::string known = "one of";
  for (std::string_view n : pre_tokenizer_names()) known.append(" ").append(n);
  return fail(ErrorCode::unsupported, "tokenizer.ggml.pre", name, known);
}

}  // namespace gyre::text
