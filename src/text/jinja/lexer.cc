#include "text/jinja/lexer.h"

#include <charconv>

#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace gyre::text::jinja {
namespace {

constexpr size_t kMaxTokens = 1 << 20;

bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool name_start(unsigned char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : src_(unix_newlines(source)) {
    if (!src_.empty() && src_.back() == '\n') src_.pop_back();
  }

  Result<std::vector<Token>> run() {
    while (pos_ < src_.size()) {
      GYRE_TRY(root());
    }
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  Error bad(int line, std::string_view value, std::string_view expected) const {
    return fail(ErrorCode::bad_file, "chat template, line " + std::to_string(line), value,
                expected);
  }

  void add(TokenKind kind, std::string text) {
    Token t;
    t.kind = kind;
    t.line = line_;
    t.text = std::move(text);
    tokens_.push_back(std::move(t));
  }

  // Moves to `end` and counts the lines in between.
  void advance(size_t end) {
    for (; pos_ < end; ++pos_) line_ += src_[pos_] == '\n';
  }

  size_t skip_space(size_t at) const {
    while (at < src_.size()) {
      const CodePoint c = decode_lenient(src_, at);
      if (!is_space(c.value)) break;
      at += c.bytes;
    }
    return at;
  }

  // The text before a tag, as the tag's sign and lstrip_blocks leave it.
  void add_data(size_t end, char sign, bool variable) {
    std::string_view data = std::string_view(src_).substr(pos_, end - pos_);
    if (sign == '-') {
      data = rstrip(data);
    } else if (sign != '+' && !variable) {
      const size_t line = data.rfind('\n') + 1;  // npos + 1 == 0
      if ((line > 0 || line_starting_) && lstrip(data.substr(line)).empty())
        data = data.substr(0, line);
    }
    if (!data.empty()) add(TokenKind::data, std::string(data));
    advance(end);
  }

  // Behind the end of a tag: '-' eats white space, a block without sign one newline.
  void finish(size_t after, char sign, bool trim) {
    if (sign == '-') {
      after = skip_space(after);
    } else if (sign != '+' && trim && after < src_.size() && src_[after] == '\n') {
      ++after;
    }
    advance(after);
    line_starting_ = after > 0 && src_[after - 1] == '\n';
  }

  // The position behind "raw" if a raw block's tag starts here; 0 if not.
  size_t word_tag(size_t at, std::string_view word, char* end_sign) const {
    at = skip_space(at);
    if (src_.compare(at, word.size(), word) != 0) return 0;
    at = skip_space(at + word.size());
    *end_sign = at < src_.size() && (src_[at] == '-' || src_[at] == '+') ? src_[at] : '\0';
    if (*end_sign != '\0') ++at;
    return src_.compare(at, 2, "%}") == 0 ? at + 2 : 0;
  }

  Status root() {
    size_t at = pos_;
    while (true) {
      at = src_.find('{', at);
      if (at == std::string::npos) {
        add(TokenKind::data, src_.substr(pos_));
        advance(src_.size());
        return {};
      }
      const char next = at + 1 < src_.size() ? src_[at + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') break;
      ++at;
    }
    const char type = src_[at + 1];
    size_t inside = at + 2;
    const char sign =
        inside < src_.size() && (src_[inside] == '-' || src_[inside] == '+') ? src_[inside] : '\0';
    if (sign != '\0') ++inside;
    add_data(at, sign, type == '{');
    if (type == '#') return comment(inside);
    char end_sign = '\0';
    if (const size_t after = type == '%' ? word_tag(inside, "raw", &end_sign) : 0;
        after != 0 && end_sign != '+')
      return raw(after, end_sign);
    add(type == '%' ? TokenKind::block_begin : TokenKind::output_begin, "");
    advance(inside);
    return inside_tag(type == '%');
  }

  Status comment(size_t inside) {
    const size_t end = src_.find("#}", inside);
    if (end == std::string::npos) return bad(line_, "{#", "#} that ends the comment");
    const char before = end > inside ? src_[end - 1] : '\0';
    finish(end + 2, before == '-' || before == '+' ? before : '\0', true);
    return {};
  }

  Status raw(size_t after, char begin_sign) {
    finish(after, begin_sign, false);
    const int line = line_;
    for (size_t at = pos_; (at = src_.find("{%", at)) != std::string::npos; at += 2) {
      size_t inside = at + 2;
      const char sign = inside < src_.size() && (src_[inside] == '-' || src_[inside] == '+')
                            ? src_[inside]
                            : '\0';
      if (sign != '\0') ++inside;
      char end_sign = '\0';
      const size_t end = word_tag(inside, "endraw", &end_sign);
      if (end == 0) continue;
      add_data(at, sign, false);
      finish(end, end_sign, true);
      return {};
    }
    return bad(line, "raw", "{% endraw %}");
  }

  Status inside_tag(bool block) {
    const int line = line_;
    const std::string_view close = block ? "%}" : "}}";
    std::string brackets;
    while (pos_ < src_.size()) {
      const char c = src_[pos_];
      const size_t sign = c == '-' || (block && c == '+') ? 1 : 0;
      if (brackets.empty() && src_.compare(pos_ + sign, 2, close) == 0) {
        add(block ? TokenKind::block_end : TokenKind::output_end, "");
        finish(pos_ + sign + 2, sign != 0 ? c : '\0', block);
        return {};
      }
      if (const size_t after = skip_space(pos_); after != pos_) {
        advance(after);
        continue;
      }
      if (tokens_.size() > kMaxTokens)
        return fail(ErrorCode::unsupported, "chat template tokens", "", "at most 1048576");
      GYRE_TRY(token(brackets));
    }
    return bad(line, block ? "{%" : "{{", std::string(close) + " that ends the tag");
  }

  Status token(std::string& brackets) {
    const char c = src_[pos_];
    if (digit(c)) return number();
    if (name_start(static_cast<unsigned char>(c))) {
      size_t end = pos_;
      while (end < src_.size() &&
             (name_start(static_cast<unsigned char>(src_[end])) || digit(src_[end])))
        ++end;
      add(TokenKind::name, src_.substr(pos_, end - pos_));
      advance(end);
      return {};
    }
    if (c == '"' || c == '\'') return string(c);
    return op(brackets);
  }

  Status op(std::string& brackets) {
    constexpr std::string_view kOps[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    for (const std::string_view text : kOps) {
      if (src_.compare(pos_, text.size(), text) != 0) continue;
      if (text == "(" || text == "[" || text == "{") {
        brackets.push_back(text[0] == '(' ? ')' : text[0] == '[' ? ']' : '}');
      } else if (text == ")" || text == "]" || text == "}") {
        if (brackets.empty() || brackets.back() != text[0])
          return bad(
              line_, text,
              brackets.empty() ? "no closing bracket" : brackets.substr(brackets.size() - 1));
        brackets.pop_back();
      }
      add(TokenKind::op, std::string(text));
      advance(pos_ + text.size());
      return {};
    }
    return bad(line_, std::string_view(src_).substr(pos_, 1), "a name, number, string or operator");
  }

  // Digits of a base with single underscores between them; returns the position behind.
  size_t digits(size_t at, int base, std::string& out) const {
    const auto fits = [&](size_t i) {
      if (i >= src_.size()) return false;
      const char c = src_[i];
      const int v = digit(c)               ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
      return v < base;
    };
    while (fits(at) || (at < src_.size() && src_[at] == '_' && !out.empty() && fits(at + 1))) {
      if (src_[at] != '_') out.push_back(src_[at]);
      ++at;
    }
    return at;
  }

  Status number() {
    int base = 10;
    size_t at = pos_;
    if (src_[at] == '0' && at + 1 < src_.size()) {
      const char x = static_cast<char>(src_[at + 1] | 0x20);
      base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
      if (base != 10) at += 2;
    }
    std::string text;
    at = digits(at, base, text);
    if (base == 10) {
      std::string fraction, exponent;
      size_t end = at;
      if (at + 1 < src_.size() && src_[at] == '.' && digit(src_[at + 1]) && !after_dot())
        end = digits(at + 1, 10, fraction);
      size_t e = end;
      std::string sign;
      if (e < src_.size() && (src_[e] | 0x20) == 'e' && !after_dot()) {
        ++e;
        if (e < src_.size() && (src_[e] == '+' || src_[e] == '-')) sign = src_[e++];
        e = digits(e, 10, exponent);
        if (!exponent.empty()) end = e;
      }
      if (end != at) {
        if (!fraction.empty()) text += "." + fraction;
        if (!exponent.empty()) text += "e" + sign + exponent;
        add(TokenKind::real, text);
        tokens_.back().value = Value::real(parse_double(text));
        advance(end);
        return {};
      }
    }
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      return bad(line_, src_.substr(pos_, at - pos_), "a number of at most 63 bits");
    add(TokenKind::integer, text);
    tokens_.back().value = Value::integer(value);
    advance(at);
    return {};
  }

  // x.0.1 is two subscripts, not a subscript by 0.1.
  bool after_dot() const { return pos_ > 0 && src_[pos_ - 1] == '.'; }

  Status string(char quote) {
    size_t end = pos_ + 1;
    while (end < src_.size() && src_[end] != quote) end += src_[end] == '\\' ? 2 : 1;
    if (end >= src_.size()) return bad(line_, std::string(1, quote), "the string's end");
    Result<std::string> text = unescape(std::string_view(src_).substr(pos_ + 1, end - pos_ - 1));
    if (!text.ok()) return bad(line_, text.error().text, "");
    add(TokenKind::string, *std::move(text));
    advance(end + 1);
    return {};
  }

  std::string src_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace gyre::text::jinja
