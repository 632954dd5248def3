// Formats made of tags: a state machine of three modes that takes one byte at a time. White space next to a
// tag belongs to the tag. Text that looked like a call but is none is put back into the content unchanged.
#include "src/text/chat/parsers/output_parser.h"

#include <algorithm>

#include "common/strings.h"
#include "src/text/chat/dialogue.h"
#include "src/text/chat/parsers/harmony.h"
#include "src/text/chat/parsers/tag_scanner.h"

namespace tessera::chat {

namespace {

// A call's text may contain its own closing tag; after this many that did not complete it, it counts as text.
constexpr int kMaxTries = 8;

bool is_any_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

class TaggedParser final : public OutputParser {
  public:
    TaggedParser(const Format& format, ParserOptions options)
        : format_(format), options_(std::move(options)) {
        may_be_bare_ = format_.bare_json && !options_.no_calls && options_.tools.is_sequence() &&
                       !options_.tools.items().empty();
        std::string_view opening = options_.opening;
        while (!opening.empty() && is_any_space(opening.back())) opening.remove_suffix(1);
        enter_content(false);
        const TagPair* open = nullptr;
        for (const TagPair& pair : format_.reasoning)
            if (opening.ends_with(pair.begin)) open = &pair;
        if (open) enter_reasoning(*open, std::string_view(options_.opening).substr(opening.size()));
    }

    void push(std::string_view text) override {
        for (const char byte : text)
            scanner_.push(
                byte, [this](char c) { on_text(c); }, [this](size_t i) { on_tag(i); });
    }

    void finish() override {
        scanner_.flush([this](char c) { on_text(c); });
        if (mode_ == Mode::Call || mode_ == Mode::BareCall) {
            if (!accept_call("")) reject_call("the answer ended before it was complete");
        }
        // White space at the end of an answer is kept, unless calls came before it.
        if (answer_.calls.empty()) flush_spaces();
    }

  private:
    enum class Mode { Content, Reasoning, Call, BareCall };
    enum class Meaning { BeginReasoning, EndReasoning, BeginCall, EndCall, Dropped, EndTurn };
    struct Tag {
        std::string_view text;
        Meaning meaning;
        size_t index;  // index of the row in the format
    };

    void look_for(std::vector<Tag> tags) {
        if (!options_.turn_end.empty()) tags.push_back({options_.turn_end, Meaning::EndTurn, 0});
        std::vector<std::string_view> texts;
        for (const Tag& tag : tags) texts.push_back(tag.text);
        tags_ = std::move(tags);
        scanner_.set_tags(std::move(texts));
    }

    void enter_content(bool after_tag) {
        mode_ = Mode::Content;
        at_edge_ = after_tag;
        std::vector<Tag> tags;
        for (size_t i = 0; i < format_.reasoning.size(); i++)
            tags.push_back({format_.reasoning[i].begin, Meaning::BeginReasoning, i});
        for (size_t i = 0; i < format_.calls.size() && !options_.no_calls; i++)
            tags.push_back({format_.calls[i].begin, Meaning::BeginCall, i});
        for (const std::string_view text : format_.dropped) tags.push_back({text, Meaning::Dropped, 0});
        look_for(std::move(tags));
    }

    /// `space`: white space already read after the mark.
    void enter_reasoning(const TagPair& pair, std::string_view space = {}) {
        may_be_bare_ = may_be_bare_ && answer_.content.empty();
        if (options_.keep_reasoning) {
            flush_spaces();
            add_text(Delta::Kind::Content, pair.begin);
            add_text(Delta::Kind::Content, space);
        }
        mode_ = Mode::Reasoning;
        at_edge_ = !options_.keep_reasoning;
        spaces_.clear();
        look_for({{pair.end, Meaning::EndReasoning, 0}});
    }

    void enter_call(size_t index) {
        mode_ = Mode::Call;
        call_ = &format_.calls[index];
        body_.clear();
        tries_ = 0;
        n_begun_ = 0;
        stream_.begin(call_->keeps_begin ? nullptr : call_->read);
        end_seen_ = call_->end.empty();
        std::vector<Tag> tags = {{call_->begin, Meaning::BeginCall, index}};
        if (!call_->end.empty()) {
            tags.push_back({call_->end, Meaning::EndCall, index});
        } else {
            for (const std::string_view text : format_.dropped) tags.push_back({text, Meaning::EndTurn, 0});
        }
        look_for(std::move(tags));
    }

    void enter_bare_call() {
        mode_ = Mode::BareCall;
        body_.clear();
        n_begun_ = 0;
        stream_.begin(read_json_calls);
        std::vector<Tag> tags;
        for (const std::string_view text : format_.dropped) tags.push_back({text, Meaning::EndTurn, 0});
        look_for(std::move(tags));
    }

    /// Appends to a call's body.
    void add_body(std::string_view text) {
        body_ += text;
        if (!options_.stream_calls) return;
        for (const char c : text)
            if (add_step(stream_.push(c), stream_, c)) {
                n_begun_++;
                spaces_.clear();
            }
    }

    void on_text(char c) {
        if (mode_ == Mode::Call || mode_ == Mode::BareCall) {
            add_body({&c, 1});
            return;
        }
        if (is_any_space(c)) {
            if (!at_edge_) spaces_ += c;
            return;
        }
        if (mode_ == Mode::Content && std::exchange(may_be_bare_, false) && (c == '{' || c == '[')) {
            enter_bare_call();
            add_body({&c, 1});
            return;
        }
        flush_spaces();
        add_text(kind(), {&c, 1});
    }

    Delta::Kind kind() const {
        const bool apart = mode_ == Mode::Reasoning && !options_.keep_reasoning;
        return apart ? Delta::Kind::Reasoning : Delta::Kind::Content;
    }

    void flush_spaces() {
        at_edge_ = false;
        add_text(kind(), std::exchange(spaces_, {}));
    }

    void on_tag(size_t number) {
        const Tag tag = tags_[number];
        if (mode_ == Mode::Call || mode_ == Mode::BareCall) {
            on_tag_in_call(tag);
            return;
        }
        switch (tag.meaning) {
            case Meaning::BeginReasoning:
                enter_reasoning(format_.reasoning[tag.index]);
                return;
            case Meaning::BeginCall:
                may_be_bare_ = false;
                enter_call(tag.index);
                return;
            case Meaning::EndReasoning:
                if (options_.keep_reasoning) {
                    flush_spaces();
                    add_text(Delta::Kind::Content, tag.text);
                }
                spaces_.clear();
                enter_content(!options_.keep_reasoning);
                return;
            default:
                // Closes everything open without output.
                spaces_.clear();
                enter_content(true);
        }
    }

    void on_tag_in_call(const Tag& tag) {
        if (tag.meaning == Meaning::EndTurn) {
            if (!accept_call("")) reject_call("it ended with the turn");
            enter_content(true);
            return;
        }
        const bool is_end = tag.meaning == Meaning::EndCall;
        if (accept_call(is_end ? tag.text : "")) {
            is_end ? enter_content(true) : enter_call(tag.index);
            return;
        }
        if (is_end) {
            end_seen_ = true;
            add_body(tag.text);
            if (++tries_ < kMaxTries) return;
            reject_call("it does not read as a call");
            enter_content(false);
        } else if (end_seen_) {
            reject_call("it does not read as a call");
            enter_call(tag.index);
        } else {
            add_body(tag.text);
            if (++tries_ < kMaxTries) return;
            reject_call("it does not read as a call");
            enter_content(false);
        }
    }

    bool accept_call(std::string_view end) {
        std::optional<std::vector<ToolCall>> calls;
        if (mode_ == Mode::BareCall) {
            calls = read_json_calls(body_, options_.tools);
            // A JSON answer is a call only if it names a tool.
            for (const ToolCall& call : calls.value_or(std::vector<ToolCall>{}))
                if (!names_a_tool(options_.tools, call.name)) return false;
        } else if (call_->keeps_begin) {
            calls = call_->read(std::string(call_->begin) + body_ + std::string(end), options_.tools);
        } else {
            calls = call_->read(body_, options_.tools);
        }
        if (!calls) return false;
        spaces_.clear();
        add_calls(std::move(*calls), std::exchange(n_begun_, 0));
        return true;
    }

    void reject_call(const char* why) {
        const bool bare = mode_ == Mode::BareCall;
        mode_ = Mode::Content;
        if (std::exchange(n_begun_, 0) > 0) {
            note_broken(why);
            return;
        }
        flush_spaces();
        if (!bare) {
            answer_.notes.push_back(strf("the text from '%s' on was taken for content: %s",
                                         printable(call_->begin).c_str(), why));
            add_text(Delta::Kind::Content, call_->begin);
        }
        add_text(Delta::Kind::Content, body_);
    }

    const Format& format_;
    const ParserOptions options_;
    TagScanner scanner_;
    std::vector<Tag> tags_;
    Mode mode_ = Mode::Content;
    const CallTags* call_ = nullptr;
    std::string body_, spaces_;
    CallStream stream_{options_.tools};
    size_t n_begun_ = 0;  // calls of this body that deltas have reported
    int tries_ = 0;
    bool end_seen_ = false, at_edge_ = false, may_be_bare_ = false;
};

}  // namespace

void OutputParser::add_text(Delta::Kind kind, std::string_view text) {
    if (text.empty()) return;
    (kind == Delta::Kind::Content ? answer_.content : answer_.reasoning) += text;
    if (deltas_.empty() || deltas_.back().kind != kind) deltas_.push_back({kind, {}, 0});
    deltas_.back().text += text;
}

void OutputParser::add_calls(std::vector<ToolCall> calls, size_t n_known) {
    // An id may come after the arguments.
    const size_t first = answer_.calls.size() - n_known;
    for (size_t i = 0; i < std::min(n_known, calls.size()); i++)
        answer_.calls[first + i].id = std::move(calls[i].id);
    for (size_t i = n_known; i < calls.size(); i++) {
        deltas_.push_back({Delta::Kind::Call, {}, answer_.calls.size()});
        answer_.calls.push_back(std::move(calls[i]));
    }
}

bool OutputParser::add_step(CallStream::Step step, const CallStream& stream, char c) {
    if (step == CallStream::Step::Nothing) return false;
    const bool begins = step == CallStream::Step::Begin;
    if (begins) {
        deltas_.push_back({Delta::Kind::CallBegin, {}, answer_.calls.size()});
        answer_.calls.push_back({stream.id(), stream.name(), {}});
    }
    const size_t index = answer_.calls.size() - 1;
    answer_.calls[index].arguments += c;
    if (deltas_.empty() || deltas_.back().kind != Delta::Kind::CallArguments ||
        deltas_.back().call_index != index)
        deltas_.push_back({Delta::Kind::CallArguments, {}, index});
    deltas_.back().text += c;
    return begins;
}

void OutputParser::note_broken(const char* why) {
    answer_.notes.push_back(
        strf("the call of '%s' is not whole: %s", printable(answer_.calls.back().name).c_str(), why));
}

std::unique_ptr<OutputParser> OutputParser::make(const Format& format, ParserOptions options) {
    if (format.is_harmony) return make_harmony_parser(std::move(options));
    return std::make_unique<TaggedParser>(format, std::move(options));
}

}  // namespace tessera::chat
