// gyre: run a language model, with the same bits on every schedule and instruction set.

#include <cstdio>
#include <string>

#include "apps/commands.h"
#include "os/terminal.h"

namespace {

using gyre::apps::Arguments;

struct Command {
  const char* name;
  gyre::Result<int> (*run)(const Arguments&);
  const char* help;
};

constexpr Command kCommands[] = {
    {"generate", gyre::apps::run_generate, "answer a prompt"},
    {"tokenize", gyre::apps::run_tokenize, "text to token ids"},
    {"detokenize", gyre::apps::run_detokenize, "token ids to text"},
    {"score", gyre::apps::run_score, "log-probabilities and the digest of a text"},
    {"verify", gyre::apps::run_verify, "prove that schedules and instruction sets give equal bits"},
    {"bench", gyre::apps::run_bench, "prefill and decode speed"},
    {"inspect", gyre::apps::run_inspect, "what a model file holds"},
};

int usage(std::FILE* out) {
  std::fprintf(out, "usage: gyre COMMAND [flags]   (gyre COMMAND --help lists the flags)\n");
  for (const Command& command : kCommands)
    std::fprintf(out, "  %-12s %s\n", command.name, command.help);
  return 0;
}

int report(const gyre::Error& error) {
  std::fprintf(stderr, "gyre: %s\n", error.text.c_str());
  return error.code == gyre::ErrorCode::usage ? 2 : 1;
}

// A full disk, or a reader that left: the answer did not arrive.
int report_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return report(
      gyre::fail(gyre::ErrorCode::io, "stdout", "cannot be written", "a reader or space"));
}

}  // namespace

int main(int argc, char** argv) {
  gyre::os::ignore_broken_pipes();
  const Arguments words(argv + 1, argv + argc);
  if (words.empty() || words[0] == "help" || words[0] == "--help" || words[0] == "-h")
    return usage(words.empty() ? stderr : stdout) + (words.empty() ? 2 : 0);
  try {
    for (const Command& command : kCommands) {
      if (words[0] != command.name) continue;
      const gyre::Result<int> status = command.run({words.begin() + 1, words.end()});
      return status ? report_output(*status) : report(status.error());
    }
  } catch (const std::bad_alloc&) {
    return report(gyre::fail(gyre::ErrorCode::out_of_memory, "memory", "exhausted", "more of it"));
  } catch (const std::exception& e) {
    return report(gyre::fail(gyre::ErrorCode::internal, "exception", e.what()));
  }
  return report(
      gyre::fail(gyre::ErrorCode::usage, "command", words[0], "one that gyre --help lists"));
}
