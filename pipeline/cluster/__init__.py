"""How workers come to be, and how tasks reach them: `start_crew` and `map_blocks`."""

from pipeline.cluster.crew import Crew, Lost, Returned, choose_crew, count_cores, start_crew

__all__ = ["Crew", "Lost", "Returned", "choose_crew", "count_cores", "start_crew"]
