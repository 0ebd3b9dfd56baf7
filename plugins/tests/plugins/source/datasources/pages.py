"""A workspace with pages."""

from dify_plugin.entities.datasource import DatasourceGetPagesResponse
from dify_plugin.interfaces.datasource.online_document import OnlineDocumentDatasource


class Pages(OnlineDocumentDatasource):
    def _get_pages(self, datasource_parameters):
        return DatasourceGetPagesResponse(result=[])

    def _get_content(self, page):
        if page.page_id == "gone":
            raise ValueError("there is no such page")
        yield self.create_variable_message("content", f"{page.type} {page.page_id} of {page.workspace_id}")
        yield self.create_variable_message("page_id", page.page_id)
