"""The classes of the built-in node types, all in one table. The modules beside this one give them graphon's paths."""

from __future__ import annotations

from typing import ClassVar

from ..entities.base_node_data import BaseNodeData
from ..enums import BuiltinNodeTypes, NodeExecutionType, NodeType
from .base.node import Node
from .data import AnswerNodeData, EndNodeData, LLMNodeData, StartNodeData, TemplateTransformNodeData


class StartNode(Node[StartNodeData]):
    """A start node."""

    node_type = BuiltinNodeTypes.START
    execution_type = NodeExecutionType.ROOT
    data_class = StartNodeData
    is_built_in = True


class EndNode(Node[EndNodeData]):
    """An end node."""

    node_type = BuiltinNodeTypes.END
    execution_type = NodeExecutionType.RESPONSE
    data_class = EndNodeData
    is_built_in = True


class AnswerNode(Node[AnswerNodeData]):
    """An answer node."""

    node_type = BuiltinNodeTypes.ANSWER
    execution_type = NodeExecutionType.RESPONSE
    data_class = AnswerNodeData
    is_built_in = True


class LLMNode(Node[LLMNodeData]):
    """An LLM node."""

    node_type = BuiltinNodeTypes.LLM
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = LLMNodeData
    is_built_in = True
    used_parts: ClassVar[frozenset[str]] = frozenset({"model_instance"})


class IfElseNodeData(BaseNodeData):
    """The data of an if else node."""

    type: NodeType = BuiltinNodeTypes.IF_ELSE


class IfElseNode(Node[IfElseNodeData]):
    """An if else node."""

    node_type = BuiltinNodeTypes.IF_ELSE
    execution_type = NodeExecutionType.BRANCH
    data_class = IfElseNodeData
    is_built_in = True


class CodeNodeData(BaseNodeData):
    """The data of a code node."""

    type: NodeType = BuiltinNodeTypes.CODE


class CodeNode(Node[CodeNodeData]):
    """A code node."""

    node_type = BuiltinNodeTypes.CODE
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = CodeNodeData
    is_built_in = True


class TemplateTransformNode(Node[TemplateTransformNodeData]):
    """A template transform node."""

    node_type = BuiltinNodeTypes.TEMPLATE_TRANSFORM
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = TemplateTransformNodeData
    is_built_in = True


class QuestionClassifierNodeData(BaseNodeData):
    """The data of a question classifier node."""

    type: NodeType = BuiltinNodeTypes.QUESTION_CLASSIFIER


class QuestionClassifierNode(Node[QuestionClassifierNodeData]):
    """A question classifier node."""

    node_type = BuiltinNodeTypes.QUESTION_CLASSIFIER
    execution_type = NodeExecutionType.BRANCH
    data_class = QuestionClassifierNodeData
    is_built_in = True


class HttpRequestNodeData(BaseNodeData):
    """The data of an HTTP request node."""

    type: NodeType = BuiltinNodeTypes.HTTP_REQUEST


class HttpRequestNode(Node[HttpRequestNodeData]):
    """An HTTP request node."""

    node_type = BuiltinNodeTypes.HTTP_REQUEST
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = HttpRequestNodeData
    is_built_in = True


class ToolNodeData(BaseNodeData):
    """The data of a tool node."""

    type: NodeType = BuiltinNodeTypes.TOOL


class ToolNode(Node[ToolNodeData]):
    """A tool node."""

    node_type = BuiltinNodeTypes.TOOL
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = ToolNodeData
    is_built_in = True


class VariableAggregatorNodeData(BaseNodeData):
    """The data of a variable aggregator node."""

    type: NodeType = BuiltinNodeTypes.VARIABLE_AGGREGATOR


class VariableAggregatorNode(Node[VariableAggregatorNodeData]):
    """A variable aggregator node."""

    node_type = BuiltinNodeTypes.VARIABLE_AGGREGATOR
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = VariableAggregatorNodeData
    is_built_in = True


class LoopNodeData(BaseNodeData):
    """The data of a loop node."""

    type: NodeType = BuiltinNodeTypes.LOOP


class LoopNode(Node[LoopNodeData]):
    """A loop node."""

    node_type = BuiltinNodeTypes.LOOP
    execution_type = NodeExecutionType.CONTAINER
    data_class = LoopNodeData
    is_built_in = True


class LoopStartNodeData(BaseNodeData):
    """The data of a loop start node."""

    type: NodeType = BuiltinNodeTypes.LOOP_START


class LoopStartNode(Node[LoopStartNodeData]):
    """A loop start node."""

    node_type = BuiltinNodeTypes.LOOP_START
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = LoopStartNodeData
    is_built_in = True


class LoopEndNodeData(BaseNodeData):
    """The data of a loop end node."""

    type: NodeType = BuiltinNodeTypes.LOOP_END


class LoopEndNode(Node[LoopEndNodeData]):
    """A loop end node."""

    node_type = BuiltinNodeTypes.LOOP_END
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = LoopEndNodeData
    is_built_in = True


class IterationNodeData(BaseNodeData):
    """The data of an iteration node."""

    type: NodeType = BuiltinNodeTypes.ITERATION


class IterationNode(Node[IterationNodeData]):
    """An iteration node."""

    node_type = BuiltinNodeTypes.ITERATION
    execution_type = NodeExecutionType.CONTAINER
    data_class = IterationNodeData
    is_built_in = True


class IterationStartNodeData(BaseNodeData):
    """The data of an iteration start node."""

    type: NodeType = BuiltinNodeTypes.ITERATION_START


class IterationStartNode(Node[IterationStartNodeData]):
    """An iteration start node."""

    node_type = BuiltinNodeTypes.ITERATION_START
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = IterationStartNodeData
    is_built_in = True


class ParameterExtractorNodeData(BaseNodeData):
    """The data of a parameter extractor node."""

    type: NodeType = BuiltinNodeTypes.PARAMETER_EXTRACTOR


class ParameterExtractorNode(Node[ParameterExtractorNodeData]):
    """A parameter extractor node."""

    node_type = BuiltinNodeTypes.PARAMETER_EXTRACTOR
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = ParameterExtractorNodeData
    is_built_in = True


class VariableAssignerNodeData(BaseNodeData):
    """The data of a variable assigner node."""

    type: NodeType = BuiltinNodeTypes.VARIABLE_ASSIGNER


class VariableAssignerNode(Node[VariableAssignerNodeData]):
    """A variable assigner node."""

    node_type = BuiltinNodeTypes.VARIABLE_ASSIGNER
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = VariableAssignerNodeData
    is_built_in = True


class DocumentExtractorNodeData(BaseNodeData):
    """The data of a document extractor node."""

    type: NodeType = BuiltinNodeTypes.DOCUMENT_EXTRACTOR


class DocumentExtractorNode(Node[DocumentExtractorNodeData]):
    """A document extractor node."""

    node_type = BuiltinNodeTypes.DOCUMENT_EXTRACTOR
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = DocumentExtractorNodeData
    is_built_in = True


class ListOperatorNodeData(BaseNodeData):
    """The data of a list operator node."""

    type: NodeType = BuiltinNodeTypes.LIST_OPERATOR


class ListOperatorNode(Node[ListOperatorNodeData]):
    """A list operator node."""

    node_type = BuiltinNodeTypes.LIST_OPERATOR
    execution_type = NodeExecutionType.EXECUTABLE
    data_class = ListOperatorNodeData
    is_built_in = True


class HumanInputNodeData(BaseNodeData):
    """The data of a human input node."""

    type: NodeType = BuiltinNodeTypes.HUMAN_INPUT


class HumanInputNode(Node[HumanInputNodeData]):
    """A human input node."""

    node_type = BuiltinNodeTypes.HUMAN_INPUT
    execution_type = NodeExecutionType.BRANCH
    data_class = HumanInputNodeData
    is_built_in = True
    used_parts: ClassVar[frozenset[str]] = frozenset({"hitl_callback"})


NODE_CLASSES: dict[NodeType, type[Node[BaseNodeData]]] = {
    node.node_type: node  # type: ignore[misc]
    for node in (
        StartNode,
        EndNode,
        AnswerNode,
        LLMNode,
        IfElseNode,
        CodeNode,
        TemplateTransformNode,
        QuestionClassifierNode,
        HttpRequestNode,
        ToolNode,
        VariableAggregatorNode,
        LoopNode,
        LoopStartNode,
        LoopEndNode,
        IterationNode,
        IterationStartNode,
        ParameterExtractorNode,
        VariableAssignerNode,
        DocumentExtractorNode,
        ListOperatorNode,
        HumanInputNode,
    )
}
"""The class of each type."""
