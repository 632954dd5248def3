// Built-in templates, for models whose files have none: a row is a name and a template. The formats are those
// of the models they are named after, without tools and default system messages.
#include <array>

#include "src/text/chat/template.h"

namespace tessera::chat {

namespace {

struct BuiltinTemplate {
    std::string_view name;
    const char* source;
};

constexpr std::array kRows = {
    BuiltinTemplate{"chatml",
                    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    BuiltinTemplate{
        "llama2",
        "{% set ns = namespace(system='') %}{% for m in messages %}{% if m.role == 'system' %}"
        "{% set ns.system = '<<SYS>>\\n' ~ m.content ~ '\\n<</SYS>>\\n\\n' %}{% elif m.role == 'user' %}"
        "{{ bos_token }}[INST] {{ ns.system ~ m.content }} [/INST]{% set ns.system = '' %}"
        "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"},
    BuiltinTemplate{
        "llama3",
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ "
        "m.content }}"
        "<|eot_id|>{% endfor %}{% if add_generation_prompt "
        "%}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
    BuiltinTemplate{
        "llama4",
        "{{ bos_token }}{% for m in messages %}<|header_start|>{{ m.role }}<|header_end|>\n\n{{ m.content "
        "}}<|eot|>"
        "{% endfor %}{% if add_generation_prompt %}<|header_start|>assistant<|header_end|>\n\n{% endif %}"},
    BuiltinTemplate{
        "mistral",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content "
        "}}[/SYSTEM_PROMPT]"
        "{% elif m.role == 'user' %}[INST]{{ m.content }}[/INST]{% else %}{{ m.content }}{{ eos_token }}{% "
        "endif %}"
        "{% endfor %}"},
    BuiltinTemplate{
        "gemma",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
        "{{ raise_exception('there is no role for the system') }}{% endif %}<start_of_turn>"
        "{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor "
        "%}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"},
    BuiltinTemplate{"phi3",
                    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
    BuiltinTemplate{
        "phi4",
        "{% for m in messages %}<|im_start|>{{ m.role }}<|im_sep|>{{ m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"},
    BuiltinTemplate{"zephyr",
                    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ eos_token }}\n{% endfor %}"
                    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
    BuiltinTemplate{
        "vicuna",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role "
        "== 'user' %}"
        "USER: {{ m.content }}\n{% else %}ASSISTANT: {{ m.content }}{{ eos_token }}\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}"},
    BuiltinTemplate{
        "alpaca",
        "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role == 'user' %}"
        "### Instruction:\n{{ m.content }}\n\n{% else %}### Response:\n{{ m.content }}{{ eos_token }}\n\n{% "
        "endif %}"
        "{% endfor %}{% if add_generation_prompt %}### Response:\n{% endif %}"},
    BuiltinTemplate{
        "deepseek",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}\n\n{% elif m.role "
        "== 'user' %}"
        "<｜User｜>{{ m.content }}{% else %}<｜Assistant｜>{{ m.content }}<｜end▁of▁sentence｜>{% endif %}{% "
        "endfor %}"
        "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"},
    BuiltinTemplate{
        "command-r",
        "{{ bos_token }}{% for m in messages %}<|START_OF_TURN_TOKEN|>{{ {'system': '<|SYSTEM_TOKEN|>', "
        "'user': '<|USER_TOKEN|>'}.get(m.role, '<|CHATBOT_TOKEN|>') }}{{ m.content | trim "
        "}}<|END_OF_TURN_TOKEN|>"
        "{% endfor %}{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"},
    BuiltinTemplate{"granite",
                    "{% for m in messages %}<|start_of_role|>{{ m.role }}<|end_of_role|>{{ m.content "
                    "}}<|end_of_text|>\n{% endfor %}"
                    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"},
    BuiltinTemplate{"glm4",
                    "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
                    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
    BuiltinTemplate{
        "falcon3",
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{{ '\\n' if m.role != 'assistant' else "
        "eos_token ~ '\\n' }}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
};

}  // namespace

const char* find_builtin(std::string_view name) {
    for (const BuiltinTemplate& row : kRows)
        if (row.name == name) return row.source;
    return nullptr;
}

std::vector<std::string_view> builtin_names() {
    std::vector<std::string_view> names;
    for (const BuiltinTemplate& row : kRows) names.push_back(row.name);
    return names;
}

}  // namespace tessera::chat
