-- Health of every Millrace kind for Argo CD. A status that is about an older generation of the spec
-- says nothing about the newest one, so it counts as Progressing, never as Healthy.
local health = {status = "Progressing", message = "Waiting for the operator"}
local generation = obj.metadata.generation
local status = obj.status
if status == nil or status.conditions == nil or status.observedGeneration ~= generation then
  return health
end
local ready, stalled
for _, condition in ipairs(status.conditions) do
  if condition.observedGeneration == generation then
    if condition.type == "Ready" then
      ready = condition
    elseif condition.type == "Stalled" then
      stalled = condition
    elseif condition.type == "Paused" and condition.status == "True" then
      return {status = "Suspended", message = condition.message}
    end
  end
end
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.reason .. ": " .. stalled.message}
end
if ready == nil then
  return health
end
if ready.status == "True" then
  return {status = "Healthy", message = ready.message}
end
-- Lag and outages of Kafka or ClickHouse are worked off or waited out; they are not the fault of
-- what was synchronised, but they must not appear healthy either.
return {status = "Progressing", message = ready.reason .. ": " .. ready.message}
