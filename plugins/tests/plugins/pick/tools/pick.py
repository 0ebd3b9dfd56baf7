"""Lists the options of a parameter, and has a further parameter at run time."""

from dify_plugin import Tool
from dify_plugin.entities import I18nObject, ParameterOption
from dify_plugin.entities.tool import ToolParameter


class Pick(Tool):
    def _invoke(self, tool_parameters):
        yield self.create_json_message({"given": tool_parameters})

    def _fetch_parameter_options(self, parameter):
        names = ["blue", "green"]
        return [
            ParameterOption(value=f"{parameter}-{name}", label=I18nObject(en_US=name.title())) for name in names
        ]

    def _get_runtime_parameters(self):
        words = I18nObject(en_US="How many persons")
        return [
            ToolParameter(
                name="persons",
                label=words,
                human_description=words,
                llm_description="How many persons",
                type=ToolParameter.ToolParameterType.NUMBER,
                form=ToolParameter.ToolParameterForm.LLM,
                required=True,
            )
        ]
