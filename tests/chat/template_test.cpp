// Chat templates: adapting, continuing, repair, and every template of the collection with every dialogue of
// the references, adapted instead of raw.
#include "src/text/chat/template.h"

#include "src/text/chat/model_template.h"
#include "tests/jinja/support.h"

namespace tessera::chat {
namespace {

using jinja::DateTime;

const Clock kClock = [] { return DateTime{2026, 8, 22, 10, 20, 30}; };

ChatTemplate builtin(const char* name, SpecialTexts special = {"<s>", "</s>"}) {
    return *ChatTemplate::load_strictly(find_builtin(name), std::move(special), kClock);
}

Dialogue dialogue(std::string_view json) {
    const auto parsed = parse_dialogue(json);
    EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
    return parsed.value_or(Dialogue{});
}

std::string prompt(const ChatTemplate& chat_template, const Dialogue& dialogue) {
    const auto rendered = chat_template.render(dialogue);
    return rendered ? rendered->text : "error: " + rendered.error().message;
}

constexpr const char* kTurns =
    R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"}])";

TEST(ChatTemplate, builtin_formats) {
    const std::pair<const char*, const char*> rows[] = {
        {"chatml",
         "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>"
         "\n"
         "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
        {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
        {"llama3",
         "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|"
         ">\n\n"
         "U<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user"
         "<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
        {"mistral", "<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]U[/INST]A</s>[INST]V[/INST]"},
        {"gemma",
         "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>"
         "user\n"
         "V<end_of_turn>\n<start_of_turn>model\n"},
        {"phi3",
         "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|assistant|"
         ">\n"},
        {"vicuna", "<s>S\n\nUSER: U\nASSISTANT: A</s>\nUSER: V\nASSISTANT:"},
        {"deepseek", "<s>S\n\n<｜User｜>U<｜Assistant｜>A<｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜>"},
    };
    for (const auto& [name, text] : rows) EXPECT_EQ(prompt(builtin(name), dialogue(kTurns)), text) << name;
    for (const std::string_view name : builtin_names()) {
        const ChatTemplate chat_template = builtin(std::string(name).c_str());
        EXPECT_TRUE(chat_template.warnings().empty()) << name;
        const std::string text = prompt(chat_template, dialogue(kTurns));
        for (const char* word : {"S", "U", "A", "V"}) EXPECT_NE(text.find(word), std::string::npos) << name;
    }
    EXPECT_EQ(find_builtin("no such"), nullptr);
}

TEST(ChatTemplate, a_broken_template_is_replaced) {
    for (const char* source : {"{% if %}", "{{ raise_exception('never') }}", "{{ messages[5].content }}",
                               "no messages", "{% for m in messages %}{{ m.missing.member }}{% endfor %}"}) {
        const ChatTemplate chat_template = ChatTemplate::load(source, {}, kClock);
        ASSERT_EQ(chat_template.warnings().size(), 1u) << source;
        EXPECT_NE(chat_template.warnings()[0].find("ChatML"), std::string::npos);
        EXPECT_EQ(prompt(chat_template, dialogue(R"([{"role": "user", "content": "U"}])")),
                  "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n");
        EXPECT_FALSE(ChatTemplate::load_strictly(source).has_value()) << source;
    }
}

// It assigns to messages of the assistant, which the sandbox refuses, but prints all others.
constexpr const char* kFailsForAnswers =
    "{% for m in messages %}{% if m.role == 'assistant' %}{% set m.seen = 1 %}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";

TEST(ChatTemplate, a_template_that_fails_for_some_dialogues_is_used_for_the_others) {
    const Dialogue question = dialogue(R"([{"role": "user", "content": "U"}])");
    const ChatTemplate kept = ChatTemplate::load(kFailsForAnswers, {}, kClock);
    ASSERT_EQ(kept.warnings().size(), 1u);
    EXPECT_NE(kept.warnings()[0].find("line 1"), std::string::npos) << kept.warnings()[0];
    EXPECT_EQ(kept.source(), kFailsForAnswers);
    EXPECT_EQ(prompt(kept, question), "[user]U[assistant]");
    EXPECT_EQ(kept.render_raw(question).value(), "[user]U[assistant]");

    const auto replaced = kept.render(dialogue(kTurns));
    ASSERT_TRUE(replaced.has_value()) << replaced.error().message;
    EXPECT_EQ(replaced->text, prompt(builtin("chatml"), dialogue(kTurns)));
    ASSERT_EQ(replaced->notes.size(), 1u);
    EXPECT_NE(replaced->notes[0].find("ChatML"), std::string::npos);
    EXPECT_EQ(kept.turn_end(), "<|im_end|>");
    EXPECT_FALSE(kept.render_raw(dialogue(kTurns)).has_value());

    const auto strict = ChatTemplate::load_strictly(kFailsForAnswers, {}, kClock);
    ASSERT_TRUE(strict.has_value()) << strict.error().message;
    EXPECT_EQ(prompt(*strict, question), "[user]U[assistant]");
    EXPECT_EQ(strict->warnings().size(), 1u);
    EXPECT_FALSE(strict->render(dialogue(kTurns)).has_value());
}

TEST(ChatTemplate, parse_renders_nothing) {
    const Dialogue question = dialogue(R"([{"role": "user", "content": "U"}])");
    const auto parsed = ChatTemplate::parse("{{ messages[0].content }}{{ messages[5].content }}");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_FALSE(parsed->render_raw(question).has_value());
    EXPECT_FALSE(ChatTemplate::parse("{% if %}").has_value());
}

TEST(ChatTemplate, bos_stands_once) {
    const char* source = "{{ bos_token }}{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
    const auto rendered = ChatTemplate::load_strictly(source, {"<s>", ""})->render(dialogue(kTurns));
    EXPECT_EQ(rendered->text, "<s>SUAV");
    EXPECT_TRUE(rendered->has_bos);
    EXPECT_EQ(rendered->notes.size(), 1u);
    EXPECT_FALSE(builtin("chatml").render(dialogue(kTurns))->has_bos);
    // A user's text that spells the bos token is not taken for one.
    const auto spelled = builtin("chatml").render(dialogue(R"([{"role": "user", "content": "<s>"}])"));
    EXPECT_FALSE(spelled->has_bos);
}

TEST(ChatTemplate, opening_of_the_answer) {
    EXPECT_EQ(builtin("chatml").render(dialogue(kTurns))->opening, "<|im_start|>assistant\n");
    Dialogue closed = dialogue(kTurns);
    closed.add_generation_prompt = false;
    EXPECT_EQ(builtin("chatml").render(closed)->opening, "");
    EXPECT_EQ(builtin("chatml").turn_end(), "<|im_end|>");
    EXPECT_EQ(builtin("llama3").turn_end(), "<|eot_id|>");
    EXPECT_EQ(builtin("mistral").turn_end(), "</s>");
}

TEST(ChatTemplate, the_last_answer_is_continued) {
    Dialogue open =
        dialogue(R"([{"role": "user", "content": "U"}, {"role": "assistant", "content": "Once upon "}])");
    open.continue_last = true;
    EXPECT_EQ(prompt(builtin("chatml"), open),
              "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nOnce upon ");
    EXPECT_EQ(prompt(builtin("gemma"), open),
              "<s><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\nOnce upon ");
    Dialogue wrong = dialogue(kTurns);
    wrong.continue_last = true;
    EXPECT_FALSE(builtin("chatml").render(wrong).has_value());
}

TEST(ChatTemplate, tools_become_words_where_the_template_has_none) {
    const Dialogue asked = dialogue(R"({"messages": [
        {"role": "user", "content": "U"},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"a": "é"}}}]},
        {"role": "tool", "tool_call_id": "1", "content": "R"}],
        "tools": [{"name": "f"}]})");
    const auto rendered = builtin("chatml").render(asked);
    ASSERT_TRUE(rendered.has_value());
    EXPECT_NE(
        rendered->text.find("<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\"}}\n</tools>"),
        std::string::npos);
    EXPECT_NE(rendered->text.find(
                  "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"é\"}}\n</tool_call><|im_end|>"),
              std::string::npos);
    EXPECT_NE(rendered->text.find("<|im_start|>user\n<tool_response>\nR\n</tool_response><|im_end|>"),
              std::string::npos);
    EXPECT_EQ(rendered->notes.size(), 1u);
}

TEST(ChatTemplate, parts) {
    const Dialogue in_parts = dialogue(
        R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])");
    EXPECT_EQ(prompt(builtin("chatml"), in_parts), "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n");
    const auto image = builtin("chatml").render(
        dialogue(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])"));
    ASSERT_FALSE(image.has_value());
    EXPECT_NE(image.error().message.find("messages[0].content"), std::string::npos);
    // A template that accepts only parts gets parts.
    const auto parts_only = ChatTemplate::load_strictly(
        "{% for m in messages %}[{{ m.role }}]{% if m.role == 'user' %}{% for p in m.content %}{{ p.text "
        "}}{% endfor %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}");
    ASSERT_TRUE(parts_only.has_value()) << parts_only.error().message;
    EXPECT_FALSE(parts_only->abilities().text);
    EXPECT_EQ(prompt(*parts_only, dialogue(R"([{"role": "user", "content": "U"}])")), "[user]U");
}

TEST(ChatTemplate, roles_are_merged_where_they_must_alternate) {
    const auto strict = ChatTemplate::load_strictly(
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}");
    ASSERT_TRUE(strict.has_value()) << strict.error().message;
    const auto merged =
        strict->render(dialogue(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])"));
    ASSERT_TRUE(merged.has_value()) << merged.error().message;
    EXPECT_EQ(merged->text, "[user]a\n\nb");
    EXPECT_EQ(merged->notes.size(), 1u);
    const auto refused = strict->render(dialogue(R"([{"role": "assistant", "content": "a"}])"));
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find("roles must alternate"), std::string::npos);
}

TEST(ChatTemplate, parallel_calls_follow_each_other_where_they_must) {
    const auto single = ChatTemplate::load_strictly(
        "{% for m in messages %}{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ "
        "raise_exception('one') }}"
        "{% endif %}[{{ m.tool_calls[0].function | tojson }}]{% else %}{{ m.content }};{% endif %}{% endfor "
        "%}");
    ASSERT_TRUE(single.has_value()) << single.error().message;
    const auto split =
        single->render(dialogue(R"([{"role": "user", "content": "U"}, {"role": "assistant", "tool_calls": [
        {"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "g"}}]},
        {"role": "tool", "tool_call_id": "b", "content": "G"}, {"role": "tool", "tool_call_id": "a", "content": "F"}])"));
    ASSERT_TRUE(split.has_value()) << split.error().message;
    EXPECT_EQ(split->text,
              "U;[{\"name\": \"f\", \"arguments\": {}}]F;[{\"name\": \"g\", \"arguments\": {}}]G;");
}

TEST(ChatTemplate, kwargs_dates_and_thinking) {
    const auto chat_template = ChatTemplate::load_strictly(
        "{{ strftime_now('%Y-%m-%d') }} {{ effort | default('low') }} {% for m in messages %}{{ m.content "
        "}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '' if enable_thinking | default(true) else '<think></think>' }}{% "
        "endif %}",
        {}, kClock);
    ASSERT_TRUE(chat_template.has_value());
    EXPECT_TRUE(chat_template->abilities().thinking);
    Dialogue asked = dialogue(
        R"({"messages": [{"role": "user", "content": "U"}], "chat_template_kwargs": {"effort": "high"}})");
    EXPECT_EQ(prompt(*chat_template, asked), "2026-08-22 high U");
    asked.enable_thinking = false;
    EXPECT_EQ(prompt(*chat_template, asked), "2026-08-22 high U<think></think>");
}

// The collection: raw renders equal the references; adapted ones succeed if the template can print the
// dialogue at all, and contain every word of it.
TEST(ChatTemplate, collection) {
    TSR_NEED_SHARED("golden/templates");
    size_t n_rendered = 0, n_refused = 0, n_raw_errors = 0;
    std::string refused;
    for (const auto& path : test::golden_templates()) {
        const Value suite = test::read_json("golden/templates/" + path.filename().string());
        const std::string source =
            test::read_file(test::shared("data/templates/" + suite.find("template")->as_text()));
        const DateTime now = *DateTime::parse(suite.find("now")->as_text());
        const auto text = [&](const char* name) { return std::string(text_member(suite, name)); };
        const auto loaded = ChatTemplate::load_strictly(source, {text("bos_token"), text("eos_token")},
                                                        [now] { return now; });
        EXPECT_TRUE(loaded.has_value()) << path << ": " << loaded.error().message;
        if (!loaded) continue;
        for (const Value& row : suite.find("cases")->items()) {
            const Value& input = *row.find("input");
            Dialogue raw;
            raw.messages = *input.find("messages");
            raw.tools = *input.find("tools");
            raw.documents = *input.find("documents");
            raw.kwargs = *input.find("kwargs");
            raw.add_generation_prompt = input.find("add_generation_prompt")->as_bool();
            const auto exact = loaded->render_raw(raw);
            ASSERT_EQ(exact.has_value(), row.find("output") != nullptr);
            if (exact) {
                ASSERT_EQ(*exact, row.find("output")->as_text());
            }
            n_raw_errors += !exact;

            const auto checked =
                make_dialogue(with_member(input, "chat_template_kwargs", *input.find("kwargs")));
            ASSERT_TRUE(checked.has_value()) << checked.error().message;
            const auto adapted = loaded->render(*checked);
            n_rendered += adapted.has_value();
            if (adapted) continue;
            n_refused++;
            refused += path.stem().string() + "/" + std::string(text_member(row, "dialogue")) + ": " +
                       adapted.error().message + "\n";
        }
    }
    EXPECT_GE(n_rendered + n_refused, 1081u);
    // One failure: the template reads a member of schemas that the tools of this dialogue do not have.
    EXPECT_LE(n_refused, 1u) << refused;
    RecordProperty("refused_raw", static_cast<int>(n_raw_errors));
}

}  // namespace
}  // namespace tessera::chat
