from dify_plugin import DifyPluginEnv, Plugin
from dify_plugin.core.entities.plugin.request import PluginInvokeType, ToolActions

plugin = Plugin(DifyPluginEnv())


def asks_for_parameters(data):
    action = ToolActions.GetToolRuntimeParameters.value
    return data.get("type") == PluginInvokeType.Tool.value and data.get("action") == action


# The SDK has the answer, and does not give it.
plugin.register_route(plugin.plugin_executer.get_tool_runtime_parameters, asks_for_parameters)

if __name__ == "__main__":
    plugin.run()
