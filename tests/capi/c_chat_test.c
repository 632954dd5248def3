/* Chat from C99: templates, prompts, the parser of answers, and grammars in sessions and requests. */
#include <stdlib.h>

#include "tests/capi/check.h"

static const char kMessages[] =
    "[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Hello\"}]";
static const char kTools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}}, {\"name\": \"stop\"}]";

static tsr_chat* chat_of(const tsr_model* model, const char* name) {
    tsr_chat_options options = TSR_INIT(tsr_chat_options);
    tsr_chat* chat = NULL;
    options.template_name = name;
    CHECK_OK(tsr_chat_create(model, &options, &chat, error));
    return chat;
}

static tsr_prompt* prompt_of(const tsr_chat* chat, const char* tools) {
    tsr_dialogue dialogue = TSR_INIT(tsr_dialogue);
    tsr_prompt* prompt = NULL;
    dialogue.messages = kMessages;
    dialogue.tools = tools;
    CHECK_OK(tsr_chat_render(chat, &dialogue, &prompt, error));
    return prompt;
}

static void test_chat(const tsr_model* model) {
    tsr_chat_options options = TSR_INIT(tsr_chat_options);
    tsr_chat_info info = TSR_INIT(tsr_chat_info);
    tsr_chat* chat = chat_of(model, NULL);
    CHECK_OK(tsr_chat_get_info(chat, &info, error));
    CHECK(info.source && *info.source && info.format && *info.format && info.turn_end && !info.warning);
    tsr_chat_free(chat);
    chat = chat_of(model, "chatml");
    CHECK_OK(tsr_chat_get_info(chat, &info, error));
    CHECK(strcmp(info.turn_end, "<|im_end|>") == 0 && strcmp(info.format, "plain") == 0);
    CHECK(info.system == 1 && info.tools == 0 && info.thinking == 0 && info.enforced_calls == 2);
    info.size = 4;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "size", tsr_chat_get_info(chat, &info, error));
    CHECK_NULL("info", tsr_chat_get_info(chat, NULL, error));
    CHECK_NULL("chat", tsr_chat_get_info(NULL, &info, error));
    tsr_chat_free(chat);
    chat = (tsr_chat*)&options;
    options.template_name = "no such";
    CHECK_FAILS(TSR_NOT_FOUND, "no such", tsr_chat_create(model, &options, &chat, error));
    CHECK(chat == NULL);
    options.template_text = "{{ messages[0].content }}";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "both", tsr_chat_create(model, &options, &chat, error));
    options.template_name = NULL;
    options.template_text = "{% for %}";
    CHECK_FAILS(TSR_MALFORMED, "line 1", tsr_chat_create(model, &options, &chat, error));
    options.template_text = NULL;
    options.format = "esperanto";
    CHECK_FAILS(TSR_NOT_FOUND, "esperanto", tsr_chat_create(model, &options, &chat, error));
    options.format = "hermes";
    options.size = 3;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "size", tsr_chat_create(model, &options, &chat, error));
    CHECK_NULL("model", tsr_chat_create(NULL, NULL, &chat, error));
    CHECK_NULL("chat", tsr_chat_create(model, NULL, NULL, error));
    tsr_chat_free(NULL);
}

static void test_dialogue(const tsr_model* model) {
    tsr_chat* chat = chat_of(model, "chatml");
    tsr_dialogue dialogue = TSR_INIT(tsr_dialogue);
    tsr_prompt_info info = TSR_INIT(tsr_prompt_info);
    tsr_prompt* prompt = prompt_of(chat, NULL);
    CHECK_OK(tsr_prompt_get_info(prompt, &info, error));
    CHECK(strstr(info.text, "Be brief.") && strlen(info.text) == info.n_text);
    CHECK(strcmp(info.opening, "<|im_start|>assistant\n") == 0 && !*info.notes);
    CHECK(info.n_tokens > 4 && info.tokens[0] == 1 && info.tokens[1] != 1);
    CHECK_NULL("prompt", tsr_prompt_get_info(NULL, &info, error));
    CHECK_NULL("info", tsr_prompt_get_info(prompt, NULL, error));
    tsr_prompt_free(prompt);

    CHECK_FAILS(TSR_INVALID_ARGUMENT, "messages", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.messages = "[{\"role\": \"user\", \"content\": 5}]";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "messages[0].content",
                tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.messages = "[{";
    CHECK_FAILS(TSR_MALFORMED, "messages", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.messages =
        "[{\"role\": \"user\", \"content\": \"A\"}, {\"role\": \"assistant\", \"content\": "
        "\"Once upon\"}]";
    dialogue.continue_last = TSR_YES;
    CHECK_OK(tsr_chat_render(chat, &dialogue, &prompt, error));
    CHECK_OK(tsr_prompt_get_info(prompt, &info, error));
    CHECK(info.n_text > 9 && strcmp(info.text + info.n_text - 9, "Once upon") == 0 && !*info.opening);
    tsr_prompt_free(prompt);
    dialogue.add_generation_prompt = TSR_YES;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "both", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.continue_last = 7;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "continue_last", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.continue_last = TSR_DEFAULT;
    dialogue.now = "yesterday";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "now", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.now = NULL;
    dialogue.tools = "{}";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "tools", tsr_chat_render(chat, &dialogue, &prompt, error));
    dialogue.tools = NULL;
    dialogue.kwargs = "3";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "kwargs", tsr_chat_render(chat, &dialogue, &prompt, error));
    CHECK_NULL("chat", tsr_chat_render(NULL, &dialogue, &prompt, error));
    CHECK_NULL("dialogue", tsr_chat_render(chat, NULL, &prompt, error));
    CHECK_NULL("prompt", tsr_chat_render(chat, &dialogue, NULL, error));
    tsr_prompt_free(NULL);
    tsr_chat_free(chat);
}

static void test_dates_and_variables(const tsr_model* model) {
    tsr_chat_options options = TSR_INIT(tsr_chat_options);
    tsr_dialogue dialogue = TSR_INIT(tsr_dialogue);
    tsr_prompt_info info = TSR_INIT(tsr_prompt_info);
    tsr_chat* chat = NULL;
    tsr_prompt* prompt = NULL;
    options.template_text =
        "{{ strftime_now('%Y') }} {{ tone }} {{ enable_thinking }} {% for m in messages %}{{ m.content }}{% "
        "endfor %}";
    CHECK_OK(tsr_chat_create(model, &options, &chat, error));
    dialogue.messages = kMessages;
    dialogue.kwargs = "{\"tone\": \"dry\"}";
    dialogue.enable_thinking = TSR_NO;
    dialogue.now = "1999-12-31T23:59:59";
    CHECK_OK(tsr_chat_render(chat, &dialogue, &prompt, error));
    CHECK_OK(tsr_prompt_get_info(prompt, &info, error));
    CHECK(strstr(info.text, "1999 dry False") != NULL);
    tsr_prompt_free(prompt);
    tsr_chat_free(chat);
}

static void test_parser(const tsr_model* model) {
    static const char kAnswer[] =
        "<think>Hm.</think>\nLet me see.<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
        "\"Oslo\"}}\n"
        "</tool_call>";
    tsr_chat* chat = chat_of(model, "chatml");
    tsr_prompt* prompt = prompt_of(chat, kTools);
    tsr_parser_options options = TSR_INIT(tsr_parser_options);
    tsr_parser* parser = NULL;
    tsr_piece piece = TSR_INIT(tsr_piece);
    tsr_answer answer = TSR_INIT(tsr_answer);
    char content[64] = "", reasoning[64] = "";
    int n_calls = 0;
    size_t i;
    options.prompt = prompt;
    CHECK_OK(tsr_parser_create(&options, &parser, error));
    tsr_prompt_free(prompt);
    for (i = 0; i <= strlen(kAnswer); i++) {
        if (i < strlen(kAnswer))
            CHECK_OK(tsr_parser_push(parser, kAnswer + i, 1, error));
        else
            CHECK_OK(tsr_parser_finish(parser, error));
        for (;;) {
            CHECK_OK(tsr_parser_next(parser, &piece, error));
            if (piece.kind == TSR_PIECE_NONE) break;
            if (piece.kind == TSR_PIECE_CONTENT) strncat(content, piece.text, piece.n_text);
            if (piece.kind == TSR_PIECE_REASONING) strncat(reasoning, piece.text, piece.n_text);
            if (piece.kind != TSR_PIECE_CALL) continue;
            CHECK(piece.call_index == 0 && strcmp(piece.call.name, "weather") == 0);
            CHECK(strcmp(piece.call.arguments, "{\"city\": \"Oslo\"}") == 0 && !*piece.call.id);
            n_calls++;
        }
    }
    CHECK(strcmp(content, "Let me see.") == 0 && strcmp(reasoning, "Hm.") == 0 && n_calls == 1);
    CHECK_OK(tsr_parser_answer(parser, &answer, error));
    CHECK(strcmp(answer.content, content) == 0 && strcmp(answer.reasoning, reasoning) == 0);
    CHECK(answer.n_calls == 1 && strcmp(answer.calls[0].name, "weather") == 0 && !*answer.notes);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "finished", tsr_parser_push(parser, "x", 1, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "finished", tsr_parser_finish(parser, error));
    CHECK_NULL("text", tsr_parser_push(parser, NULL, 1, error));
    CHECK_NULL("piece", tsr_parser_next(parser, NULL, error));
    CHECK_NULL("answer", tsr_parser_answer(parser, NULL, error));
    piece.size = 1;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "size", tsr_parser_next(parser, &piece, error));
    tsr_parser_free(parser);

    CHECK_OK(tsr_parser_create(NULL, &parser, error));
    tsr_parser_free(parser);
    options.prompt = NULL;
    options.format = "gpt-oss";
    options.opening = "<|start|>assistant";
    CHECK_OK(tsr_parser_create(&options, &parser, error));
    CHECK_OK(tsr_parser_push(parser, "<|channel|>final<|message|>Hi<|return|>", 39, error));
    CHECK_OK(tsr_parser_finish(parser, error));
    CHECK_OK(tsr_parser_answer(parser, &answer, error));
    CHECK(strcmp(answer.content, "Hi") == 0);
    tsr_parser_free(parser);
    options.flags = TSR_PARSER_NO_CALLS | TSR_PARSER_KEEP_REASONING;
    options.format = "hermes";
    options.opening = "<think>";
    CHECK_OK(tsr_parser_create(&options, &parser, error));
    CHECK_OK(tsr_parser_push(parser, "Hm.</think><tool_call>{}", 24, error));
    CHECK_OK(tsr_parser_finish(parser, error));
    CHECK_OK(tsr_parser_answer(parser, &answer, error));
    CHECK(strcmp(answer.content, "<think>Hm.</think><tool_call>{}") == 0 && !*answer.reasoning);
    tsr_parser_free(parser);
    options.format = "esperanto";
    CHECK_FAILS(TSR_NOT_FOUND, "esperanto", tsr_parser_create(&options, &parser, error));
    options.format = NULL;
    options.tools = "[1]";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "tools[0]", tsr_parser_create(&options, &parser, error));
    CHECK_NULL("parser", tsr_parser_create(NULL, NULL, error));
    CHECK_NULL("parser", tsr_parser_push(NULL, "", 0, error));
    CHECK_NULL("parser", tsr_parser_finish(NULL, error));
    CHECK_NULL("parser", tsr_parser_next(NULL, &piece, error));
    CHECK_NULL("parser", tsr_parser_answer(NULL, &answer, error));
    tsr_parser_free(NULL);
    tsr_chat_free(chat);
}

static tsr_grammar* grammar_of(tsr_grammar_kind kind, const char* text) {
    tsr_grammar_options options = TSR_INIT(tsr_grammar_options);
    tsr_grammar* grammar = NULL;
    options.kind = kind;
    options.text = text;
    options.n_text = strlen(text);
    CHECK_OK(tsr_grammar_create(&options, &grammar, error));
    return grammar;
}

static void test_grammars(const tsr_model* model) {
    static const struct {
        tsr_grammar_kind kind;
        tsr_status status;
        const char *text, *says;
    } kBad[] = {
        {TSR_GRAMMAR_GBNF, TSR_MALFORMED, "root ::= \"a\"\nx ::= (", "line 2, column"},
        {TSR_GRAMMAR_REGEX, TSR_MALFORMED, "a(b", "position"},
        {TSR_GRAMMAR_JSON_SCHEMA, TSR_MALFORMED, "{\"type\": 5}", "/type"},
        {TSR_GRAMMAR_JSON_SCHEMA, TSR_UNSUPPORTED, "{\"items\": {\"$dynamicRef\": \"#a\"}}",
         "/items/$dynamicRef"},
        {TSR_GRAMMAR_JSON_SCHEMA, TSR_INVALID_ARGUMENT,
         "{\"properties\": {\"a\": {\"type\": \"integer\", \"minimum\": 3, \"maximum\": 2}}, \"required\": "
         "[\"a\"], "
         "\"type\": \"object\"}",
         "/properties/a"},
        {(tsr_grammar_kind)0, TSR_INVALID_ARGUMENT, "", "kind"},
        {(tsr_grammar_kind)9, TSR_INVALID_ARGUMENT, "", "kind"},
    };
    tsr_grammar_options options = TSR_INIT(tsr_grammar_options);
    tsr_tool_grammar_options tools = TSR_INIT(tsr_tool_grammar_options);
    tsr_grammar* grammar = NULL;
    tsr_chat* chat = chat_of(model, "chatml");
    tsr_prompt *prompt = prompt_of(chat, kTools), *bare = prompt_of(chat, NULL);
    const char* triggers[] = {"[call]", NULL};
    size_t i;
    for (i = 0; i < sizeof kBad / sizeof *kBad; i++) {
        options.kind = kBad[i].kind;
        options.text = kBad[i].text;
        options.n_text = strlen(kBad[i].text);
        CHECK_FAILS(kBad[i].status, kBad[i].says, tsr_grammar_create(&options, &grammar, error));
        CHECK(grammar == NULL);
    }
    CHECK_NULL("options", tsr_grammar_create(NULL, &grammar, error));
    CHECK_NULL("grammar", tsr_grammar_create(&options, NULL, error));
    options.text = NULL;
    options.n_text = 3;
    CHECK_NULL("text", tsr_grammar_create(&options, &grammar, error));
    tsr_grammar_free(NULL);

    tools.prompt = prompt;
    CHECK_OK(tsr_grammar_create_tools(&tools, &grammar, error));
    tsr_grammar_free(grammar);
    tools.none = 1;
    CHECK_OK(tsr_grammar_create_tools(&tools, &grammar, error));
    tsr_grammar_free(grammar);
    tools.none = 0;
    tools.function = "walk";
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "walk", tsr_grammar_create_tools(&tools, &grammar, error));
    tools.function = NULL;
    tools.tools = kTools;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "both", tsr_grammar_create_tools(&tools, &grammar, error));
    tools.tools = NULL;
    tools.prompt = bare;
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "none", tsr_grammar_create_tools(&tools, &grammar, error));
    tools.prompt = NULL;
    CHECK_NULL("tools", tsr_grammar_create_tools(&tools, &grammar, error));
    tools.tools = kTools;
    tools.triggers = triggers;
    tools.n_triggers = 1;
    CHECK_OK(tsr_grammar_create_tools(&tools, &grammar, error));
    tsr_grammar_free(grammar);
    tools.n_triggers = 2;
    CHECK_NULL("trigger", tsr_grammar_create_tools(&tools, &grammar, error));
    CHECK_NULL("options", tsr_grammar_create_tools(NULL, &grammar, error));
    CHECK_NULL("grammar", tsr_grammar_create_tools(&tools, NULL, error));
    tsr_prompt_free(prompt);
    tsr_prompt_free(bare);
    tsr_chat_free(chat);
}

static void test_session(const tsr_model* model) {
    tsr_param sampling[] = {{"temperature", "1"}, {"seed", "3"}};
    tsr_session_options options = TSR_INIT(tsr_session_options);
    tsr_session* session = NULL;
    tsr_grammar* grammar = grammar_of(TSR_GRAMMAR_REGEX, "(yes|no|maybe), [0-9]{3}");
    tsr_text text;
    int32_t ids[64], id, foreign;
    size_t n = 0, n_written = 0;
    options.n_ctx = 64;
    options.sampling = sampling;
    options.n_sampling = 2;
    CHECK_OK(tsr_session_create(model, &options, &session, error));
    CHECK_OK(tsr_tokenize(model, "Hello", 5, TSR_ADD_SPECIAL, ids, 64, &n, error));
    foreign = ids[1];
    CHECK_OK(tsr_session_eval(session, ids, n, error));
    CHECK_OK(tsr_session_constrain(session, grammar, error));
    tsr_grammar_free(grammar);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "grammar", tsr_session_eval(session, &foreign, 1, error));
    CHECK(tsr_session_n_tokens(session) == (int64_t)n);
    for (n_written = 0; n_written < 40; n_written++) {
        CHECK_OK(tsr_session_step(session, &id, error));
        if (tsr_is_end(model, id)) break;
        ids[n_written] = id;
    }
    CHECK_OK(tsr_detokenize(model, ids, n_written, 0, &text, error));
    CHECK(text.n >= 7 && strstr(text.data, ", ") && text.data[text.n - 4] == ' ');
    tsr_text_free(&text);
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "sampling", tsr_session_sample(session, &id, error));
    /* Back to the first token of the answer, and once more to the same end; then to before it. */
    CHECK_OK(tsr_session_truncate(session, (int64_t)n, error));
    CHECK_OK(tsr_session_eval(session, ids, n_written, error));
    CHECK_FAILS(TSR_INVALID_ARGUMENT, "grammar", tsr_session_eval(session, &foreign, 1, error));
    CHECK_OK(tsr_session_truncate(session, 1, error));
    CHECK_OK(tsr_session_eval(session, ids, 1, error));
    CHECK_OK(tsr_session_constrain(session, NULL, error));
    CHECK_OK(tsr_session_eval(session, &foreign, 1, error));
    CHECK_NULL("session", tsr_session_constrain(NULL, NULL, error));
    tsr_session_cancel(session);
    CHECK_FAILS(TSR_CANCELLED, "cancelled", tsr_session_eval(session, &foreign, 1, error));
    CHECK_OK(tsr_session_eval(session, &foreign, 1, error));
    tsr_session_cancel(NULL);
    tsr_session_free(session);
}

typedef struct {
    tsr_parser* parser;
    int64_t n_generated, n_read, n_known;
    tsr_finish finish;
} Reading;

static void on_delta(void* user, const tsr_delta* delta) {
    Reading* reading = user;
    CHECK_OK(tsr_parser_push(reading->parser, delta->text, delta->n_text, error));
}

static void on_finish(void* user, const tsr_outcome* outcome) {
    Reading* reading = user;
    reading->finish = outcome->finish;
    reading->n_generated = outcome->n_generated;
}

static void on_prompt(void* user, int32_t completion, int64_t n_read, int64_t n_prompt) {
    Reading* reading = user;
    CHECK(completion == 0 && n_read <= n_prompt && n_read >= reading->n_read);
    if (reading->n_known < 0) reading->n_known = n_read;
    reading->n_read = n_read;
}

/* A call that is required comes, whatever the model. */
static void test_request(const tsr_model* model) {
    tsr_chat* chat = chat_of(model, "chatml");
    tsr_prompt* prompt = prompt_of(chat, kTools);
    tsr_prompt_info info = TSR_INIT(tsr_prompt_info);
    tsr_tool_grammar_options form = TSR_INIT(tsr_tool_grammar_options);
    tsr_parser_options read = TSR_INIT(tsr_parser_options);
    tsr_engine_options options = TSR_INIT(tsr_engine_options);
    tsr_engine_stats stats = TSR_INIT(tsr_engine_stats);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    tsr_param sampling[] = {{"temperature", "0"}};
    tsr_grammar* grammar = NULL;
    tsr_engine* engine = NULL;
    tsr_request* request = NULL;
    tsr_answer answer = TSR_INIT(tsr_answer);
    Reading reading = {0};
    reading.n_known = -1;
    form.prompt = prompt;
    form.required = 1;
    form.compact_json = 1;
    form.function = "stop";
    CHECK_OK(tsr_grammar_create_tools(&form, &grammar, error));
    read.prompt = prompt;
    CHECK_OK(tsr_parser_create(&read, &reading.parser, error));
    CHECK_OK(tsr_prompt_get_info(prompt, &info, error));
    options.n_ctx = 1024;
    CHECK_OK(tsr_engine_create(model, &options, &engine, error));
    asked.tokens = info.tokens;
    asked.n_tokens = info.n_tokens;
    asked.max_tokens = 200;
    asked.sampling = sampling;
    asked.n_sampling = 1;
    asked.flags = TSR_SHOW_SPECIAL_TEXT;
    asked.grammar = grammar;
    asked.on_delta = on_delta;
    asked.on_finish = on_finish;
    asked.on_prompt = on_prompt;
    asked.user = &reading;
    CHECK_OK(tsr_engine_submit(engine, &asked, &request, error));
    tsr_grammar_free(grammar);
    tsr_prompt_free(prompt);
    tsr_chat_free(chat);
    tsr_request_wait(request);
    CHECK_OK(tsr_parser_finish(reading.parser, error));
    CHECK_OK(tsr_parser_answer(reading.parser, &answer, error));
    CHECK(reading.n_known == 0 && reading.n_read == (int64_t)asked.n_tokens);
    /* Arguments without a schema may continue; the name is certain. */
    CHECK(reading.finish == TSR_FINISH_LENGTH ||
          (answer.n_calls == 1 && strcmp(answer.calls[0].name, "stop") == 0));
    /* They are those of the end of a pass, which comes after that of its requests. */
    do {
        CHECK_OK(tsr_engine_get_stats(engine, &stats, error));
    } while (stats.n_running > 0);
    CHECK(stats.n_generated_tokens == reading.n_generated);
    tsr_request_free(request);
    tsr_parser_free(reading.parser);
    tsr_engine_free(engine);
}

int main(int argc, char** argv) {
    tsr_model* model = NULL;
    if (argc != 2) return 2;
    CHECK_OK(tsr_model_load(argv[1], NULL, &model, error));
    if (!model) return 1;
    test_chat(model);
    test_dialogue(model);
    test_dates_and_variables(model);
    test_parser(model);
    test_grammars(model);
    test_session(model);
    test_request(model);
    tsr_model_free(model);
    return report_failures();
}
