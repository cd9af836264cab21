DROP VIEW gnomon.all_executions;
