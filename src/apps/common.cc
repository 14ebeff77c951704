#include "apps/common.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "os/file.h"
#include "os/terminal.h"

namespace gyre::apps {
namespace {
constexpr size_t kMaxTextBytes = size_t{1} << 30;
}

void ModelFlags::add_to(Flags& flags) {
  flags.text("-m,--model", &model, "model file (.gguf)")
      .integer("--threads", &threads, 1, ThreadPool::kMaxThreads,
               "threads (default: cores, affinity and quota allow)")
      .text("--isa", &isa, "instruction set: scalar, avx2, avx512, ... (default: GYRE_ISA or best)")
      .text("--kv", &kv,
            "KV scheme: bf16, kv8, kv4-g32, turbo-k8v4, anchor-k4v4, config, ... (bf16)")
      .text("--pack-cache", &pack_cache, "folder that keeps packed weights for the next load")
      .toggle("--json", &json, "one JSON object on stdout");
}

Result<engine::LoadSettings> ModelFlags::settings() const {
  if (model.empty()) return fail(ErrorCode::usage, "--model", "nothing", "a model file");
  engine::LoadSettings settings;
  settings.path = model;
  settings.threads = static_cast<int>(threads);
  settings.isa = isa;
  if (isa.empty()) {
    const char* forced = std::getenv("GYRE_ISA");
    if (forced != nullptr) settings.isa = forced;
  }
  settings.pack_cache = pack_cache;
  settings.oracle = oracle;
  return settings;
}

Result<kv::KvScheme> ModelFlags::scheme_of(const char* flag, const std::string& key) const {
  std::vector<kv::KvConfigEntry> config;
  if (key.starts_with("config")) {
    const size_t slash = model.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
    GYRE_ASSIGN(config, kv::read_kv_config(folder + "kv_config.json"));
  }
  auto scheme = kv::KvScheme::parse(key, &config);
  if (!scheme) return Error{scheme.error().code, std::string(flag) + ": " + scheme.error().text};
  return scheme;
}

Result<std::unique_ptr<engine::Loaded>> load(const ModelFlags& flags) {
  GYRE_ASSIGN(engine::LoadSettings settings, flags.settings());
  Progress bar("loading");
  settings.progress = [&bar](uint64_t done, uint64_t total) {
    bar.show(done, total);
    return true;
  };
  return engine::Loaded::open(settings);
}

Progress::Progress(std::string what)
    : what_(std::move(what)), visible_(os::stderr_is_terminal()), start_(engine::now_seconds()) {}

Progress::~Progress() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
}

void Progress::show(uint64_t done, uint64_t total) {
  const double now = engine::now_seconds();
  // Nothing for short work; then at most ten times a second.
  if (!visible_ || total == 0 || now - start_ < 0.3 || now - last_ < 0.1) return;
  last_ = now;
  drawn_ = true;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * done / total);
  std::fprintf(stderr, "\r%s [%.*s%.*s] %3d%%", what_.c_str(), filled,
               "##############################", kWidth - filled, "..............................",
               static_cast<int>(100 * done / total));
  std::fflush(stderr);
}

void print_json(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

Result<std::vector<int32_t>> parse_ids(const std::string& text, uint32_t vocabulary) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  auto separates = [](char c) {
    return c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
  };
  while (true) {
    while (at != end && separates(*at)) ++at;
    if (at == end) return ids;
    const char* stop = at;
    while (stop != end && !separates(*stop)) ++stop;
    int32_t id = 0;
    const auto [parsed, error] = std::from_chars(at, stop, id);
    if (error != std::errc{} || parsed != stop || id < 0 ||
        (vocabulary != 0 && static_cast<uint32_t>(id) >= vocabulary))
      return fail(ErrorCode::usage, "token id", std::string(at, stop),
                  vocabulary == 0 ? std::string("an integer from 0")
                                  : "an integer from 0 to " + std::to_string(vocabulary - 1));
    ids.push_back(id);
    at = stop;
  }
}

Result<std::string> read_text_file(const std::string& path) {
  return os::read_file(path, kMaxTextBytes);
}

}  // namespace gyre::apps
