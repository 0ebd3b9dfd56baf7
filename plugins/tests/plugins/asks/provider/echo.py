from dify_plugin.interfaces.agent import AgentProvider


class Echo(AgentProvider):
    pass
