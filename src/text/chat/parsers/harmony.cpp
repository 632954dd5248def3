// <|start|>assistant<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>
// The channel says what a message is: analysis is reasoning, final and commentary are content; a recipient
// makes it a call. The prompt's opening goes through the same machine first, so that the answer may begin
// anywhere inside.
#include "src/text/chat/parsers/harmony.h"

#include <array>

#include "common/strings.h"
#include "src/text/chat/parsers/tag_scanner.h"
#include "src/text/jinja/json.h"

namespace tessera::chat {

namespace {

enum Mark : size_t { kStart, kChannel, kConstrain, kMessage, kEnd, kCall, kReturn };
constexpr std::array<std::string_view, 7> kMarks = {
    "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>"};
constexpr std::string_view kFunctions = "functions.";

class HarmonyParser final : public OutputParser {
  public:
    explicit HarmonyParser(ParserOptions options) : options_(std::move(options)) {
        scanner_.set_tags({kMarks.begin(), kMarks.end()});
        const size_t turn = options_.opening.rfind(kMarks[kStart]);
        if (turn != std::string::npos) push(std::string_view(options_.opening).substr(turn));
        // Only the state after the opening matters.
        raw_.clear();
        body_.clear();
        answer_ = {};
        deltas_.clear();
        begins_message_ = true;
        begun_ = false;
    }

    void push(std::string_view text) override {
        for (const char byte : text)
            scanner_.push(
                byte, [this](char c) { on_text(c); }, [this](size_t i) { on_mark(static_cast<Mark>(i)); });
    }

    void finish() override {
        scanner_.flush([this](char c) { on_text(c); });
        if (mode_ == Mode::Header) reject_header();
        if (mode_ == Mode::Body) end_body("the answer ended before it was complete");
    }

  private:
    enum class Mode { Between, Header, Body };
    enum class Purpose { Content, Reasoning, Call };

    void on_text(char c) {
        if (mode_ == Mode::Between) {
            // Between messages there is at most a line feed; anything else is an answer without a header.
            if (c == '\n' || c == ' ') return;
            begin_body(Purpose::Content);
        }
        if (mode_ == Mode::Header) {
            header_ += c;
            raw_ += c;
        } else if (purpose_ == Purpose::Call) {
            body_ += c;
            if (options_.stream_calls) begun_ |= add_step(stream_.push(c), stream_, c);
        } else {
            add_body({&c, 1});
        }
    }

    void on_mark(Mark mark) {
        switch (mark) {
            case kStart:
                leave();
                begin_header();
                raw_ += kMarks[mark];
                return;
            case kChannel:
                if (mode_ == Mode::Body) leave();
                if (mode_ == Mode::Between) begin_header();
                header_ += " channel=";
                raw_ += kMarks[mark];
                return;
            case kConstrain:
                if (mode_ == Mode::Header) {
                    header_ += " constrain=";
                    raw_ += kMarks[mark];
                } else {
                    put(kMarks[mark]);
                }
                return;
            case kMessage:
                if (mode_ == Mode::Header) {
                    read_header();
                } else if (mode_ == Mode::Between) {
                    begin_body(Purpose::Content);
                } else {
                    put(kMarks[mark]);
                }
                return;
            default:
                if (mode_ == Mode::Body && is_kept_) put(kMarks[mark]);
                leave();
        }
    }

    // Handles a mark without meaning at its position.
    void put(std::string_view text) {
        for (const char c : text) on_text(c);
    }

    void leave() {
        if (mode_ == Mode::Header) reject_header();
        if (mode_ == Mode::Body) end_body("it does not hold a JSON object");
        mode_ = Mode::Between;
    }

    void begin_header() {
        mode_ = Mode::Header;
        header_.clear();
        raw_.clear();
    }

    void read_header() {
        std::string channel;
        recipient_.clear();
        for (const std::string_view word : split(header_, ' ')) {
            if (word.starts_with("channel=")) channel = word.substr(8);
            if (word.starts_with("to=")) recipient_ = trim(word.substr(3));
        }
        raw_ += kMarks[kMessage];
        // Messages of the assistant to itself or to the user are not calls.
        const bool is_call = !recipient_.empty() && recipient_ != "assistant" && recipient_ != "user";
        const bool is_thought = !is_call && channel == "analysis";
        if (is_call ? options_.no_calls : is_thought && options_.keep_reasoning) {
            // Content includes its header and precedes its end mark.
            begin_body(Purpose::Content);
            add_body(raw_);
            is_kept_ = true;
            return;
        }
        begin_body(is_call ? Purpose::Call : is_thought ? Purpose::Reasoning : Purpose::Content);
    }

    void reject_header() {
        const std::string raw = std::exchange(raw_, {});
        mode_ = Mode::Between;
        if (raw.empty()) return;
        answer_.notes.push_back(
            strf("the header '%s' was taken for content: it has no message", printable(raw).c_str()));
        begin_body(Purpose::Content);
        add_body(raw);
        mode_ = Mode::Between;
    }

    void begin_body(Purpose purpose) {
        mode_ = Mode::Body;
        purpose_ = purpose;
        body_.clear();
        begins_message_ = true;
        begun_ = is_kept_ = false;
        if (purpose == Purpose::Call) stream_.begin_arguments(function_name());
    }

    void add_body(std::string_view text) {
        const auto kind = purpose_ == Purpose::Reasoning ? Delta::Kind::Reasoning : Delta::Kind::Content;
        const std::string& before = purpose_ == Purpose::Reasoning ? answer_.reasoning : answer_.content;
        // Several messages of one kind become paragraphs.
        if (std::exchange(begins_message_, false) && !before.empty()) add_text(kind, "\n\n");
        add_text(kind, text);
    }

    std::string_view function_name() const {
        std::string_view name = recipient_;
        if (name.starts_with(kFunctions)) name.remove_prefix(kFunctions.size());
        return name;
    }

    void end_body(const char* why) {
        mode_ = Mode::Between;
        if (purpose_ != Purpose::Call) return;
        const std::string_view name = function_name();
        std::optional<std::string> arguments = trim(body_).empty() ? "{}" : arguments_json(body_);
        // The interpreter gets its code unchanged.
        if (!arguments && name == "python") {
            const auto code = jinja::Value::dict_of({{"code", jinja::Value::text(body_)}});
            if (auto json = jinja::dump_json(code)) arguments = std::move(*json);
        }
        if (begun_) {
            if (!arguments) note_broken(why);
            return;
        }
        if (arguments && !name.empty()) {
            add_calls({{"", std::string(name), std::move(*arguments)}});
            return;
        }
        answer_.notes.push_back(
            strf("a call of '%s' was taken for content: %s", printable(recipient_).c_str(), why));
        purpose_ = Purpose::Content;
        begins_message_ = true;
        add_body(raw_ + body_);
    }

    const ParserOptions options_;
    CallStream stream_{options_.tools};
    TagScanner scanner_;
    Mode mode_ = Mode::Between;
    Purpose purpose_ = Purpose::Content;
    std::string header_, raw_, recipient_, body_;  // raw_: the header as it was written
    bool begins_message_ = true;
    bool begun_ = false;    // deltas have reported this call
    bool is_kept_ = false;  // this message's marks are content
};

}  // namespace

std::unique_ptr<OutputParser> make_harmony_parser(ParserOptions options) {
    return std::make_unique<HarmonyParser>(std::move(options));
}

}  // namespace tessera::chat
